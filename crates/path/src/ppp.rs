//! PPP in HDLC-like framing (RFC 1662), on an asynchronous line.

const FLAG: u8 = 0x7e;
const ESCAPE: u8 = 0x7d;
/// The value that an escaped byte is XORed with.
const ESCAPED: u8 = 0x20;
const ADDRESS_AND_CONTROL: [u8; 2] = [0xff, 0x03];
const IPV4: [u8; 2] = [0x00, 0x21];
const IPV6: [u8; 2] = [0x00, 0x57];

/// Appends the frame of an IP packet: address, control, protocol, packet, check sequence, and one flag that two frames
/// share. Only the flag and the escape are escaped, as hosts negotiate for a line that is transparent to control
/// characters.
pub(crate) fn write_frame(packet: &[u8], line: &mut Vec<u8>) {
    let protocol = match packet.first().map(|first| first >> 4) {
        Some(6) => IPV6,
        _ => IPV4,
    };
    let mut check = CheckSequence::default();
    for part in [&ADDRESS_AND_CONTROL, &protocol, packet] {
        for &byte in part {
            check.add(byte);
            write_escaped(byte, line);
        }
    }
    for byte in check.bytes() {
        write_escaped(byte, line);
    }
    line.push(FLAG);
}

fn write_escaped(byte: u8, line: &mut Vec<u8>) {
    if byte == FLAG || byte == ESCAPE {
        line.extend([ESCAPE, byte ^ ESCAPED]);
    } else {
        line.push(byte);
    }
}

/// The 16-bit check sequence (RFC 1662, appendix C.2).
struct CheckSequence(u16);

impl Default for CheckSequence {
    fn default() -> CheckSequence {
        CheckSequence(0xffff)
    }
}

impl CheckSequence {
    fn add(&mut self, byte: u8) {
        self.0 ^= u16::from(byte);
        for _ in 0..8 {
            let polynomial = if self.0 & 1 == 1 { 0x8408 } else { 0 };
            self.0 = (self.0 >> 1) ^ polynomial;
        }
    }

    /// Returns the bytes of the check sequence, in the order in which they are sent.
    fn bytes(self) -> [u8; 2] {
        (!self.0).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(packet: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        write_frame(packet, &mut line);
        line
    }

    #[test]
    fn the_check_sequence_is_that_of_x25() {
        let mut check = CheckSequence::default();
        for byte in *b"123456789" {
            check.add(byte);
        }
        // The published check value of CRC-16/IBM-SDLC.
        assert_eq!(check.bytes(), 0x906e_u16.to_le_bytes());
    }

    #[test]
    fn a_receiver_finds_the_good_final_check_sequence() {
        let line = frame(&[0x45, 1, 2, 3]);
        let (&flag, content) = line.split_last().unwrap();
        assert_eq!((flag, content.len()), (FLAG, 10));
        assert_eq!(content[..8], [0xff, 3, 0, 0x21, 0x45, 1, 2, 3]);
        let mut check = CheckSequence::default();
        for &byte in content {
            check.add(byte);
        }
        // RFC 1662, appendix C.2: PPPGOODFCS16.
        assert_eq!(check.0, 0xf0b8);
    }

    #[test]
    fn a_frame_adds_the_seven_bytes_of_the_framing_and_one_for_each_escape() {
        let plain = [0x45; 40];
        assert_eq!(
            frame(&plain).len() as u64,
            crate::Framing::Ppp.on_link(40),
            "no byte of the packet needs an escape"
        );
        let line = frame(&[0x60, 0x7e, 0x7d]);
        assert_eq!(line[2..9], [0, 0x57, 0x60, 0x7d, 0x5e, 0x7d, 0x5d]);
    }
}
