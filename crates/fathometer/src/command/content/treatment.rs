//! The treatments that are compared, and what each made of the files.

use std::time::Duration;

use fathometer_content::{Coding, CodingError, DCZ_HEADER_BYTES, Dictionary, lower_case_tags};
use fathometer_sys::clock::process_cpu_time;
use serde::Serialize;

/// The codings, with the levels that servers and build tools use.
const CODINGS: [Coding; 11] = [
    Coding::Gzip(1),
    Coding::Gzip(6),
    Coding::Gzip(9),
    Coding::Brotli(1),
    Coding::Brotli(5),
    Coding::Brotli(9),
    Coding::Brotli(11),
    Coding::Zstd(1),
    Coding::Zstd(3),
    Coding::Zstd(9),
    Coding::Zstd(19),
];

/// The codings that are also applied to HTML with its tags in lower case.
const AFTER_LOWER_CASE: [Coding; 3] = [Coding::Gzip(6), Coding::Brotli(11), Coding::Zstd(19)];

/// The codings of minified texts; `None` is without a coding.
const AFTER_MINIFICATION: [Option<Coding>; 4] = [
    None,
    Some(Coding::Gzip(6)),
    Some(Coding::Brotli(11)),
    Some(Coding::Zstd(19)),
];

/// The coding that makes text smallest.
const STRONGEST: Coding = Coding::Brotli(11);

/// A file to treat.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Its content.
    pub content: &'a [u8],
    /// Whether it is HTML.
    pub is_html: bool,
}

/// A minified file.
#[derive(Clone, Debug)]
pub struct Minified {
    /// Its content.
    pub content: Vec<u8>,
    /// CPU time of each repetition.
    pub times: Vec<Duration>,
}

/// A treatment of a file.
#[derive(Debug)]
pub enum Treatment {
    /// A content coding.
    Coded(Coding),
    /// The tags of HTML in lower case, then a content coding.
    LowerCase(Coding),
    /// HTML and style sheets minified, then a content coding, if one is named.
    Minified(Option<Coding>),
    /// Zstandard with the dictionary of the site.
    Shared(Dictionary),
}

/// Why a treatment could not be applied: both are defects of this program.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The coding failed.
    #[error(transparent)]
    Coding(#[from] CodingError),
    /// What was decoded is not what was encoded.
    #[error("{0} changes the content: please report it")]
    Changed(String),
}

/// All treatments that need no knowledge of the site.
pub fn of_single_files() -> Vec<Treatment> {
    let coded = CODINGS.map(Treatment::Coded);
    let lower = AFTER_LOWER_CASE.map(Treatment::LowerCase);
    let minified = AFTER_MINIFICATION.map(Treatment::Minified);
    coded.into_iter().chain(lower).chain(minified).collect()
}

/// Sums over all files of one treatment.
#[derive(Debug, Default, Serialize)]
pub struct Sums {
    /// Bytes to transfer: of the coded file, or of the file as it is where the treatment does not make it smaller;
    /// and of the dictionary, once.
    pub bytes: u64,
    /// Files that the treatment makes smaller.
    pub files_smaller: u64,
    /// CPU time to encode all files, in seconds: one sum for each repetition.
    pub encode_s: Vec<f64>,
    /// CPU time to decode all coded files, in seconds: one sum for each repetition; none without a decoder.
    pub decode_s: Vec<f64>,
}

/// What a treatment made of one file.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// Bytes of the treated file, which may be more than those of the file.
    pub bytes: u64,
    encode_s: Vec<f64>,
    decode_s: Vec<f64>,
}

/// What the coding that makes text smallest made of one file.
#[derive(Clone, Debug, Default)]
pub struct Strongest {
    /// Of the file as it is.
    pub alone: Applied,
    /// Of the minified file.
    pub minified: Applied,
}

impl Applied {
    /// Adds a repetition, of treatments without a decoder without a time to decode.
    pub fn push(&mut self, bytes: usize, encoding: Duration, decoding: Option<Duration>) {
        self.bytes = bytes as u64;
        self.encode_s.push(encoding.as_secs_f64());
        self.decode_s
            .extend(decoding.map(|decoding| decoding.as_secs_f64()));
    }
}

impl Sums {
    /// Sums of so many repetitions.
    pub fn new(repetitions: usize) -> Sums {
        Sums {
            encode_s: vec![0.0; repetitions],
            decode_s: vec![0.0; repetitions],
            ..Sums::default()
        }
    }

    /// Adds a file of so many bytes. Without a treatment, or if the treatment does not make it smaller, it counts as
    /// it is. Returns the bytes to transfer.
    pub fn add(&mut self, file_bytes: u64, applied: Option<&Applied>) -> u64 {
        let mut bytes = file_bytes;
        if let Some(applied) = applied {
            self.files_smaller += u64::from(applied.bytes < file_bytes);
            bytes = bytes.min(applied.bytes);
            for (sums, times) in [
                (&mut self.encode_s, &applied.encode_s),
                (&mut self.decode_s, &applied.decode_s),
            ] {
                sums.iter_mut()
                    .zip(times)
                    .for_each(|(sum, time)| *sum += time);
            }
        }
        self.bytes += bytes;
        bytes
    }
}

impl Treatment {
    /// Its name in tables and JSON.
    pub fn name(&self) -> String {
        match self {
            Treatment::Coded(coding) => coding.to_string(),
            Treatment::LowerCase(coding) => format!("tags in lower case, {coding}"),
            Treatment::Minified(None) => "minified".to_owned(),
            Treatment::Minified(Some(coding)) => format!("minified, {coding}"),
            Treatment::Shared(_) => "zstd 19 with a dictionary of the site".to_owned(),
        }
    }

    /// The coding that makes the same of this file, because the treatment changes other files alone.
    pub fn same_as(&self, file: Text<'_>, minified: Option<&Minified>) -> Option<Coding> {
        match *self {
            Treatment::LowerCase(coding) if !file.is_html => Some(coding),
            Treatment::Minified(coding) if minified.is_none() => coding,
            _ => None,
        }
    }

    /// Treats the file in so many repetitions, and compares the decoded content with the input.
    pub fn apply(
        &self,
        file: Text<'_>,
        minified: Option<&Minified>,
        repetitions: usize,
    ) -> Result<Applied, ApplyError> {
        let lower;
        let mut minifying = None;
        let content = match self {
            // A document that cannot be changed safely is coded as it is.
            Treatment::LowerCase(_) if file.is_html => {
                lower = lower_case_tags(file.content).ok();
                lower.as_deref().unwrap_or(file.content)
            }
            Treatment::Minified(_) => {
                minifying = minified.map(|minified| minified.times.as_slice());
                minified.map_or(file.content, |minified| &minified.content)
            }
            _ => file.content,
        };
        let mut applied = Applied::default();
        for repetition in 0..repetitions {
            let (coded, encoding) = timed(|| self.encode(content));
            let minifying = minifying.and_then(|times| times.get(repetition));
            let encoding = encoding + minifying.copied().unwrap_or_default();
            let coded = coded?;
            let (decoded, decoding) = timed(|| self.decode(&coded, content.len()));
            if decoded? != content {
                return Err(ApplyError::Changed(self.name()));
            }
            applied.push(coded.len(), encoding, Some(decoding));
        }
        if let Treatment::Shared(_) = self {
            applied.bytes += DCZ_HEADER_BYTES as u64;
        }
        Ok(applied)
    }

    /// Whether it is the coding that makes text smallest, of the file as it is.
    pub fn is_strongest(&self) -> bool {
        matches!(self, Treatment::Coded(STRONGEST))
    }

    /// Whether it is the coding that makes text smallest, of the minified file.
    pub fn is_strongest_minified(&self) -> bool {
        matches!(self, Treatment::Minified(Some(STRONGEST)))
    }

    fn encode(&self, content: &[u8]) -> Result<Vec<u8>, CodingError> {
        match self {
            Treatment::Coded(coding)
            | Treatment::LowerCase(coding)
            | Treatment::Minified(Some(coding)) => coding.encode(content),
            Treatment::Minified(None) => Ok(content.to_vec()),
            Treatment::Shared(dictionary) => dictionary.encode(content),
        }
    }

    fn decode(&self, coded: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
        match self {
            Treatment::Coded(coding)
            | Treatment::LowerCase(coding)
            | Treatment::Minified(Some(coding)) => coding.decode(coded, limit),
            Treatment::Minified(None) => Ok(coded.to_vec()),
            Treatment::Shared(dictionary) => dictionary.decode(coded, limit),
        }
    }
}

/// Runs the work and measures its CPU time, in all threads: the decoder of JPEG has some of its own.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = process_cpu_time();
    let result = work();
    (result, process_cpu_time().saturating_sub(start))
}
