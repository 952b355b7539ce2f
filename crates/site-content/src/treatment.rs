//! The treatments that are compared, and their results for the files.

use std::time::Duration;

use fathometer_content::{Coding, CodingError, DCZ_HEADER_BYTES, Dictionary, lower_case_tags};
use fathometer_sys::clock::process_cpu_time;
use serde::Serialize;

/// The content codings, with the levels that servers and build tools use.
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

/// The codings of minified texts; `None` means no coding.
const AFTER_MINIFICATION: [Option<Coding>; 4] = [
    None,
    Some(Coding::Gzip(6)),
    Some(Coding::Brotli(11)),
    Some(Coding::Zstd(19)),
];

/// The usual setting of servers.
pub const USUAL: Coding = Coding::Gzip(6);
/// The coding with the smallest result for text.
pub const STRONGEST: Coding = Coding::Brotli(11);
/// The name of the row with lossless treatments of images, and with minified texts in the strongest coding.
pub const LOSSLESS_MINIFIED: &str = "lossless images, minified and brotli 11";

/// A file to treat.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The content of the file.
    pub content: &'a [u8],
    /// Whether the file is HTML.
    pub is_html: bool,
}

/// A minified file.
#[derive(Clone, Debug)]
pub struct Minified {
    /// The content of the minified file.
    pub content: Vec<u8>,
    /// CPU time of each repetition.
    pub times: Vec<Duration>,
}

/// A treatment of a file.
#[derive(Debug)]
pub enum Treatment {
    /// A content coding.
    Coded(Coding),
    /// HTML tags in lower case, then a content coding.
    LowerCase(Coding),
    /// Minified HTML and style sheets, then a content coding if one is given.
    Minified(Option<Coding>),
    /// Zstandard with the dictionary of the site.
    Shared(Dictionary),
}

/// The reason why a treatment could not be applied. Both variants are defects of this program.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The coding failed.
    #[error(transparent)]
    Coding(#[from] CodingError),
    /// The decoded content differs from the encoded content.
    #[error("{0} changes the content: please report it")]
    Changed(String),
}

/// Returns all treatments that need only a single file.
pub fn of_single_files() -> Vec<Treatment> {
    let coded = CODINGS.map(Treatment::Coded);
    let lower = AFTER_LOWER_CASE.map(Treatment::LowerCase);
    let minified = AFTER_MINIFICATION.map(Treatment::Minified);
    coded.into_iter().chain(lower).chain(minified).collect()
}

/// The sums of one treatment over all files.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sums {
    /// The bytes to transfer: the treated file, or the original if the treatment does not make it smaller. The
    /// dictionary is added once.
    pub bytes: u64,
    /// The number of files that the treatment makes smaller.
    pub files_smaller: u64,
    /// The CPU time to encode all files, in seconds: one sum per repetition.
    pub encode_s: Vec<f64>,
    /// The CPU time to decode all coded files, in seconds: one sum per repetition; empty without a decoder.
    pub decode_s: Vec<f64>,
}

/// The result of a treatment for one file.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The size of the treated file in bytes. It may be larger than the original.
    pub bytes: u64,
    encode_s: Vec<f64>,
    decode_s: Vec<f64>,
}

/// The results for a file with each treatment to which joined files are compared.
#[derive(Clone, Debug, Default)]
pub struct FileCosts {
    /// The size of the original file in bytes.
    pub bytes: u64,
    /// The result with the usual coding of servers.
    pub usual: Applied,
    /// The result with the coding that gives the smallest text.
    pub strongest: Applied,
    /// The result of minification and the strongest coding. For an image, the smallest result of this coding and the
    /// lossless treatments.
    pub minified: Applied,
}

impl FileCosts {
    /// Returns the memory size of the costs, in bytes.
    pub fn size(&self) -> usize {
        let applied = [&self.usual, &self.strongest, &self.minified];
        let times = applied.map(|one| one.encode_s.len() + one.decode_s.len());
        size_of::<FileCosts>() + times.iter().sum::<usize>() * size_of::<f64>()
    }
}

impl Applied {
    /// Returns the number of repetitions.
    #[cfg(feature = "images")]
    pub fn repetitions(&self) -> usize {
        self.encode_s.len()
    }

    /// Adds a repetition. `decoding` is `None` for treatments without a decoder.
    pub fn push(&mut self, bytes: usize, encoding: Duration, decoding: Option<Duration>) {
        self.bytes = bytes as u64;
        self.encode_s.push(encoding.as_secs_f64());
        self.decode_s
            .extend(decoding.map(|decoding| decoding.as_secs_f64()));
    }
}

impl Sums {
    /// Creates empty sums for this number of repetitions.
    pub fn new(repetitions: usize) -> Sums {
        Sums {
            encode_s: vec![0.0; repetitions],
            decode_s: vec![0.0; repetitions],
            ..Sums::default()
        }
    }

    /// Adds a file of `file_bytes` bytes. Without a treatment, or if the treatment does not make the file smaller, the
    /// size of the original is added. Returns the bytes to transfer.
    pub fn add(&mut self, file_bytes: u64, applied: Option<&Applied>) -> u64 {
        let mut bytes = file_bytes;
        if let Some(applied) = applied {
            self.files_smaller += u64::from(applied.bytes < file_bytes);
            bytes = bytes.min(applied.bytes);
            self.add_times(applied, 1.0);
        }
        self.bytes += bytes;
        bytes
    }

    /// Removes a file of `file_bytes` bytes that was added with this result.
    pub fn remove(&mut self, file_bytes: u64, applied: Option<&Applied>) {
        let mut bytes = file_bytes;
        if let Some(applied) = applied {
            let smaller = u64::from(applied.bytes < file_bytes);
            self.files_smaller = self.files_smaller.saturating_sub(smaller);
            bytes = bytes.min(applied.bytes);
            self.add_times(applied, -1.0);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Adds a joined file of `made_bytes` bytes that replaces other files. If the treatment does not make the joined
    /// file smaller, it is transferred without treatment. It counts as smaller if it has fewer bytes than the replaced
    /// files together.
    pub fn add_made(&mut self, made_bytes: u64, applied: &Applied, others_bytes: u64) {
        let bytes = made_bytes.min(applied.bytes);
        self.files_smaller += u64::from(bytes < others_bytes);
        self.add_times(applied, 1.0);
        self.bytes += bytes;
    }

    fn add_times(&mut self, applied: &Applied, sign: f64) {
        for (sums, times) in [
            (&mut self.encode_s, &applied.encode_s),
            (&mut self.decode_s, &applied.decode_s),
        ] {
            for (sum, time) in sums.iter_mut().zip(times) {
                // Rounding errors must not make the sum of no files negative.
                *sum = (*sum + sign * time).max(0.0);
            }
        }
    }
}

impl Treatment {
    /// Returns the name of the treatment in tables and JSON.
    pub fn name(&self) -> String {
        match self {
            Treatment::Coded(coding) => coding.to_string(),
            Treatment::LowerCase(coding) => format!("tags in lower case, {coding}"),
            Treatment::Minified(None) => "minified".to_owned(),
            Treatment::Minified(Some(coding)) => format!("minified, {coding}"),
            Treatment::Shared(_) => "zstd 19 with a dictionary of the site".to_owned(),
        }
    }

    /// Returns the coding with the same result for this file, if the treatment changes only other files.
    pub fn same_as(&self, file: Text<'_>, minified: Option<&Minified>) -> Option<Coding> {
        match *self {
            Treatment::LowerCase(coding) if !file.is_html => Some(coding),
            Treatment::Minified(coding) if minified.is_none() => coding,
            _ => None,
        }
    }

    /// Treats the file `repetitions` times, and compares the decoded content with the input.
    pub fn apply(
        &self,
        file: Text<'_>,
        minified: Option<&Minified>,
        repetitions: usize,
    ) -> Result<Applied, ApplyError> {
        let lower;
        let mut minifying = None;
        let content = match self {
            // A document that cannot be changed safely is encoded unchanged.
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

    /// Returns the field for this treatment's result in the costs to which joined files are compared.
    pub fn place_in<'c>(&self, costs: &'c mut FileCosts) -> Option<&'c mut Applied> {
        match *self {
            Treatment::Coded(USUAL) => Some(&mut costs.usual),
            Treatment::Coded(STRONGEST) => Some(&mut costs.strongest),
            Treatment::Minified(Some(STRONGEST)) => Some(&mut costs.minified),
            _ => None,
        }
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

/// Runs the work this number of times, at least once. Returns the last result, and the CPU time of each run. Returns
/// `None` as soon as the work returns `None`.
pub fn repeated<T>(
    repetitions: usize,
    mut work: impl FnMut() -> Option<T>,
) -> Option<(T, Vec<Duration>)> {
    let mut times = Vec::with_capacity(repetitions);
    loop {
        let (result, time) = timed(&mut work);
        let result = result?;
        times.push(time);
        if times.len() >= repetitions {
            return Some((result, times));
        }
    }
}

/// Runs the work and measures its CPU time in all threads, because the JPEG decoder uses additional threads.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = process_cpu_time();
    let result = work();
    (result, process_cpu_time().saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(bytes: usize, milliseconds: u64) -> Applied {
        let mut applied = Applied::default();
        let time = Duration::from_millis(milliseconds);
        applied.push(bytes, time, Some(time * 2));
        applied
    }

    #[test]
    fn a_file_that_is_removed_leaves_the_sums_of_the_others() {
        let mut sums = Sums::new(1);
        let (one, other, larger) = (applied(40, 8), applied(70, 3), applied(60, 1));
        sums.add(100, Some(&one));
        sums.add(90, Some(&other));
        sums.add(50, Some(&larger));
        assert_eq!((sums.bytes, sums.files_smaller), (40 + 70 + 50, 2));
        sums.remove(100, Some(&one));
        sums.remove(50, Some(&larger));
        assert_eq!((sums.bytes, sums.files_smaller), (70, 1));
        assert!((sums.encode_s[0] - 0.003).abs() < 1e-12, "{sums:?}");
        assert!((sums.decode_s[0] - 0.006).abs() < 1e-12, "{sums:?}");
        // A file that no coding makes smaller. It replaces two files of 150 bytes together.
        sums.add_made(120, &applied(130, 5), 150);
        assert_eq!((sums.bytes, sums.files_smaller), (190, 2));
        sums.add_made(160, &applied(155, 5), 150);
        assert_eq!((sums.bytes, sums.files_smaller), (345, 2));
        assert!((sums.encode_s[0] - 0.013).abs() < 1e-12, "{sums:?}");
    }
}
