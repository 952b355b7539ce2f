//! A Brotli encoder that can be dropped without finishing the stream; the library's own writer would compress
//! the remaining input when it is dropped.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use fathometer_http::origin::negotiation::Encoder;

/// The smallest and largest window, as powers of two. Decoders allocate the window, and a window larger than
/// the content is useless. With windows up to 16, the library uses another search for qualities 5 and above,
/// which saves 3 % of the bytes but takes nine times as long.
const SMALLEST_WINDOW: u32 = 17;
const LARGEST_WINDOW: u32 = 22;

/// The largest window for the content and its dictionary together, as a power of two. Clients support windows
/// of up to 16 MiB (RFC 9842 section 4); the encoder's buffer has twice the size of the window.
const LARGEST_WINDOW_WITH_DICTIONARY: u32 = 23;

/// The difference between a power of two and the size of a window, in bytes (RFC 7932 section 9.1).
const WINDOW_GAP: u64 = 16;

/// At qualities 0 and 1 the encoder ignores the dictionary, and below 5 it finds few matches in a long
/// dictionary.
const LOWEST_QUALITY_WITH_DICTIONARY: u32 = 5;

/// Number of bytes of output that are taken from the library at a time.
const BUFFER: usize = 4096;

pub(super) struct Brotli {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    output: Vec<u8>,
}

impl Brotli {
    pub fn new(quality: u32, length: u64, dictionary: Option<&[u8]>) -> Brotli {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        let (quality, reach, largest) = match dictionary {
            None => (quality, length, LARGEST_WINDOW),
            // The encoder's window includes the dictionary.
            Some(dictionary) => (
                quality.max(LOWEST_QUALITY_WITH_DICTIONARY),
                length + dictionary.len() as u64 + WINDOW_GAP,
                LARGEST_WINDOW_WITH_DICTIONARY,
            ),
        };
        let window = (u64::BITS - reach.leading_zeros()).clamp(SMALLEST_WINDOW, largest);
        for (parameter, value) in [
            (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality),
            (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window),
            (
                BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT,
                u32::try_from(length).unwrap_or(u32::MAX),
            ),
        ] {
            state.set_parameter(parameter, value);
        }
        if let Some(dictionary) = dictionary {
            state.set_custom_dictionary(dictionary.len(), dictionary);
        }
        Brotli {
            state,
            output: Vec::new(),
        }
    }

    /// Passes input to the encoder and takes its output; returns false on failure.
    fn run(&mut self, operation: BrotliEncoderOperation, input: &[u8]) -> bool {
        let (mut available, mut offset) = (input.len(), 0);
        let mut buffer = [0; BUFFER];
        loop {
            let (mut room, mut filled) = (buffer.len(), 0);
            let is_well = self.state.compress_stream(
                operation,
                &mut available,
                input,
                &mut offset,
                &mut room,
                &mut buffer,
                &mut filled,
                &mut None,
                &mut |_, _, _, _| (),
            );
            self.output.extend_from_slice(&buffer[..filled]);
            if !is_well {
                return false;
            }
            if available == 0 && !self.state.has_more_output() {
                return true;
            }
        }
    }
}

impl Encoder for Brotli {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, bytes)
    }

    fn finish(mut self: Box<Self>) -> Option<Vec<u8>> {
        let finished = self.run(BrotliEncoderOperation::BROTLI_OPERATION_FINISH, &[]);
        (finished && self.state.is_finished()).then_some(self.output)
    }
}
