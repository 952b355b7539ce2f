//! Parses a ClientHello (RFC 8446 section 4.1.2) for values that rustls does not report.

/// The values of a ClientHello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hello {
    /// The requested server name (SNI, RFC 6066).
    pub server_name: Option<String>,
    /// Whether early data follows.
    pub early_data: bool,
    /// Whether the ClientHello contains a TLS 1.2 ticket (RFC 5077).
    pub ticket: bool,
}

const SERVER_NAME: u16 = 0;
const SESSION_TICKET: u16 = 35;
const EARLY_DATA: u16 = 42;

const HANDSHAKE: u8 = 22;
pub(super) const CLIENT_HELLO: u8 = 1;

impl Hello {
    /// Parses the message at the start of these records; `None` if the message is not a complete ClientHello.
    pub(super) fn read(records: &[u8]) -> Option<Hello> {
        let mut message = Vec::new();
        let mut rest = records;
        while let Some((&[kind, _, _, high, low], after)) = rest.split_first_chunk::<5>() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if kind != HANDSHAKE || after.len() < length {
                break;
            }
            let (payload, next) = after.split_at(length);
            message.extend_from_slice(payload);
            rest = next;
        }
        let mut message = Fields(&message);
        if message.number(1)? != u64::from(CLIENT_HELLO) {
            return None;
        }
        let mut body = message.vector(3)?;
        body.take(2 + 32)?;
        body.vector(1)?;
        body.vector(2)?;
        body.vector(1)?;
        let mut hello = Hello::default();
        // A ClientHello may have no extensions.
        let Some(mut extensions) = body.vector(2) else {
            return Some(hello);
        };
        while let Some(kind) = extensions.number(2) {
            let content = extensions.vector(2)?;
            match kind as u16 {
                SERVER_NAME => hello.server_name = name(content),
                SESSION_TICKET => hello.ticket = !content.0.is_empty(),
                EARLY_DATA => hello.early_data = true,
                _ => {}
            }
        }
        Some(hello)
    }
}

fn name(mut content: Fields<'_>) -> Option<String> {
    let mut names = content.vector(2)?;
    let host_name = names.number(1)? == 0;
    let name = names.vector(2)?;
    host_name
        .then(|| String::from_utf8(name.0.to_vec()).ok())
        .flatten()
}

/// Reads the fields of a message in order.
struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads an integer of `bytes` bytes.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let digits = self.take(bytes)?;
        Some(
            digits
                .iter()
                .fold(0, |number, &digit| number << 8 | u64::from(digit)),
        )
    }

    /// Reads a vector whose length field has `bytes` bytes.
    fn vector(&mut self, bytes: usize) -> Option<Fields<'m>> {
        let length = usize::try_from(self.number(bytes)?).ok()?;
        self.take(length).map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a ClientHello with these extensions.
    fn message(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut block = Vec::new();
        for (kind, content) in extensions {
            block.extend_from_slice(&kind.to_be_bytes());
            block.extend_from_slice(&(content.len() as u16).to_be_bytes());
            block.extend_from_slice(content);
        }
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
        body.extend_from_slice(&(block.len() as u16).to_be_bytes());
        body.extend_from_slice(&block);
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend_from_slice(&(body.len() as u16).to_be_bytes());
        message.extend_from_slice(&body);
        message
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |payload: &[u8]| {
            let mut record = vec![HANDSHAKE, 3, 1];
            record.extend_from_slice(&(payload.len() as u16).to_be_bytes());
            record.extend_from_slice(payload);
            record
        };
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn it_is_read_from_any_number_of_records() {
        let sni = b"\x00\x0e\x00\x00\x0borigin.test";
        let message = message(&[
            (SERVER_NAME, sni),
            (EARLY_DATA, b""),
            (SESSION_TICKET, b"t"),
        ]);
        let expected = Hello {
            server_name: Some("origin.test".to_owned()),
            early_data: true,
            ticket: true,
        };
        for size in [1, 7, 1000] {
            let records = records(&message, size);
            assert_eq!(Hello::read(&records), Some(expected.clone()));
            assert_eq!(Hello::read(&records[..records.len() - 1]), None);
        }
    }

    #[test]
    fn an_empty_ticket_is_an_offer_to_take_one() {
        let hello = Hello::read(&records(&message(&[(SESSION_TICKET, b"")]), 99)).unwrap();
        assert_eq!(hello, Hello::default());
    }
}
