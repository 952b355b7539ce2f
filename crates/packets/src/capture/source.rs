//! The input of a capture: a file, which is decompressed if its first bytes are those of gzip or zstd.

use std::io::{self, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::CaptureError;

/// Number of bytes that identify the format of a file.
pub(super) const MAGIC_LENGTH: usize = 4;

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A file; a compressed file is decompressed while it is read.
pub(super) enum Source<R: Read> {
    Plain(File<R>),
    Gzip(Box<MultiGzDecoder<File<R>>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: Read> Source<R> {
    /// Recognises the compression of the file.
    pub(super) fn open(reader: R) -> Result<Source<R>, CaptureError> {
        let file = File::open(reader).map_err(|source| CaptureError::Io { offset: 0, source })?;
        let with = match *file.magic() {
            [0x1f, 0x8b, ..] => return Ok(Source::Gzip(Box::new(MultiGzDecoder::new(file)))),
            magic if magic == ZSTD || is_skippable(magic) => {
                return Ok(Source::Zstd(Box::new(Zstd::new(file))));
            }
            [0xfd, b'7', b'z', b'X'] => "xz",
            [0x04, 0x22, 0x4d, 0x18] => "lz4",
            [b'B', b'Z', b'h', b'1'..=b'9'] => "bzip2",
            _ => return Ok(Source::Plain(file)),
        };
        Err(CaptureError::Compressed { with })
    }

    /// Returns the name of the compression format; `None` if the file is not compressed.
    pub(super) fn compression(&self) -> Option<&'static str> {
        match self {
            Source::Plain(_) => None,
            Source::Gzip(_) => Some("gzip"),
            Source::Zstd(_) => Some("zstd"),
        }
    }

    fn file(&self) -> &File<R> {
        match self {
            Source::Plain(file) => file,
            Source::Gzip(decoder) => decoder.get_ref(),
            Source::Zstd(zstd) => &zstd.file,
        }
    }
}

/// Fails with [`ErrorKind::UnexpectedEof`] if the compressed file is truncated, with [`ErrorKind::InvalidData`]
/// if it is invalid, and otherwise with the system's error.
impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Source::Plain(file) => return file.read(buffer),
            Source::Gzip(decoder) => decoder.read(buffer),
            Source::Zstd(zstd) => zstd.read(buffer),
        };
        read.map_err(|error| {
            let file = self.file();
            match (file.failure, file.is_at_end) {
                (Some(ErrorKind::Interrupted), _) => ErrorKind::Interrupted.into(),
                (Some(_), _) => error,
                (None, true) => io::Error::new(ErrorKind::UnexpectedEof, error),
                (None, false) => io::Error::new(ErrorKind::InvalidData, error),
            }
        })
    }
}

/// A file with a buffer for the first bytes, which identify the format and are also part of the data.
pub struct File<R> {
    first: [u8; MAGIC_LENGTH],
    /// The read position in `first`, and the end of its content.
    at: usize,
    end: usize,
    reader: R,
    is_at_end: bool,
    failure: Option<ErrorKind>,
}

impl<R: Read> File<R> {
    fn open(reader: R) -> io::Result<File<R>> {
        let mut file = File {
            first: [0; MAGIC_LENGTH],
            at: 0,
            end: 0,
            reader,
            is_at_end: false,
            failure: None,
        };
        file.look_ahead()?;
        Ok(file)
    }

    /// Reads up to [`MAGIC_LENGTH`] of the next bytes into `first`.
    fn look_ahead(&mut self) -> io::Result<()> {
        self.first.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < MAGIC_LENGTH {
            match self.reader.read(&mut self.first[self.end..]) {
                Ok(0) => break,
                Ok(length) => self.end += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error.kind());
                    return Err(error);
                }
            }
        }
        self.first[self.end..].fill(0);
        Ok(())
    }

    fn magic(&self) -> &[u8; MAGIC_LENGTH] {
        &self.first
    }
}

impl<R: Read> Read for File<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at < self.end && !buffer.is_empty() {
            let length = buffer.len().min(self.end - self.at);
            buffer[..length].copy_from_slice(&self.first[self.at..self.at + length]);
            self.at += length;
            return Ok(length);
        }
        let read = self.reader.read(buffer);
        match &read {
            Ok(length) => self.is_at_end = *length == 0 && !buffer.is_empty(),
            Err(error) => self.failure = Some(error.kind()),
        }
        read
    }
}

/// The content of a Zstandard file: all of its frames in sequence (RFC 8878, section 3.1).
pub struct Zstd<R> {
    file: File<R>,
    decoder: FrameDecoder,
    is_within: bool,
}

impl<R: Read> Zstd<R> {
    /// Opens a Zstandard file. Reading fails if a frame is truncated, is invalid, or does not match its checksum.
    pub fn open(reader: R) -> io::Result<Zstd<R>> {
        Ok(Zstd::new(File::open(reader)?))
    }

    fn new(file: File<R>) -> Zstd<R> {
        Zstd {
            file,
            decoder: FrameDecoder::new(),
            is_within: false,
        }
    }

    /// Reads the header of the next frame that has content; returns false at the end of the file.
    fn begin_frame(&mut self) -> io::Result<bool> {
        loop {
            self.file.look_ahead()?;
            if self.file.end == 0 {
                return Ok(false);
            }
            if !is_skippable(*self.file.magic()) {
                break;
            }
            let mut header = [0; 8];
            self.file.read_exact(&mut header)?;
            let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
            let length = u64::from(length);
            if io::copy(&mut (&mut self.file).take(length), &mut io::sink())? < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        self.decoder
            .init(&mut self.file)
            .map_err(io::Error::other)?;
        self.is_within = true;
        Ok(true)
    }
}

fn is_skippable(magic: [u8; MAGIC_LENGTH]) -> bool {
    magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18]
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_within && !self.begin_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.file, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            // The decoder does not compare checksums.
            let stated = self.decoder.get_checksum_from_data();
            if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
                return Err(io::Error::other("the checksum of a frame does not match"));
            }
            self.is_within = false;
        }
    }
}
