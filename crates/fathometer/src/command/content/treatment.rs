//! The treatments that are compared, and what each made of the files.

use std::time::Duration;

use fathometer_content::{Coding, CodingError, DCZ_HEADER_BYTES, Dictionary, lower_case_tags};
use fathometer_sys::clock::thread_cpu_time;
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

/// A treatment of a file.
#[derive(Debug)]
pub enum Treatment {
    /// A content coding.
    Coded(Coding),
    /// The tags of HTML in lower case, then a content coding.
    LowerCase(Coding),
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
    coded.into_iter().chain(lower).collect()
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
    /// CPU time to decode all coded files, in seconds: one sum for each repetition.
    pub decode_s: Vec<f64>,
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
}

impl Treatment {
    /// Its name in tables and JSON.
    pub fn name(&self) -> String {
        match self {
            Treatment::Coded(coding) => coding.to_string(),
            Treatment::LowerCase(coding) => format!("tags in lower case, {coding}"),
            Treatment::Shared(_) => "zstd 19 with a dictionary of the site".to_owned(),
        }
    }

    /// Treats the file in each repetition, compares the decoded content with the input, and adds to the sums.
    /// Returns the bytes to transfer.
    pub fn apply(&self, content: &[u8], is_html: bool, sums: &mut Sums) -> Result<u64, ApplyError> {
        let lower;
        let content = match self {
            // A document that cannot be changed safely is coded as it is.
            Treatment::LowerCase(_) if is_html => {
                lower = lower_case_tags(content).ok();
                lower.as_deref().unwrap_or(content)
            }
            _ => content,
        };
        let mut coded_bytes = content.len();
        for (encode_s, decode_s) in sums.encode_s.iter_mut().zip(&mut sums.decode_s) {
            let (coded, encoding) = timed(|| self.encode(content));
            let coded = coded?;
            let (decoded, decoding) = timed(|| self.decode(&coded, content.len()));
            if decoded? != content {
                return Err(ApplyError::Changed(self.name()));
            }
            *encode_s += encoding.as_secs_f64();
            *decode_s += decoding.as_secs_f64();
            coded_bytes = coded.len();
        }
        if let Treatment::Shared(_) = self {
            coded_bytes += DCZ_HEADER_BYTES;
        }
        sums.files_smaller += u64::from(coded_bytes < content.len());
        let bytes = coded_bytes.min(content.len()) as u64;
        sums.bytes += bytes;
        Ok(bytes)
    }

    fn encode(&self, content: &[u8]) -> Result<Vec<u8>, CodingError> {
        match self {
            Treatment::Coded(coding) | Treatment::LowerCase(coding) => coding.encode(content),
            Treatment::Shared(dictionary) => dictionary.encode(content),
        }
    }

    fn decode(&self, coded: &[u8], limit: usize) -> Result<Vec<u8>, CodingError> {
        match self {
            Treatment::Coded(coding) | Treatment::LowerCase(coding) => coding.decode(coded, limit),
            Treatment::Shared(dictionary) => dictionary.decode(coded, limit),
        }
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = thread_cpu_time();
    let result = work();
    (result, thread_cpu_time().saturating_sub(start))
}
