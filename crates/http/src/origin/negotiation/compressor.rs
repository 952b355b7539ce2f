//! Compression on the fly. Each representation is compressed once, in slices, and stored in a bounded cache.
//!
//! The compressor starts no threads. In each of its turns, a response that waits for a compression compresses one
//! slice. Several responses thus share the work, and the compression continues if the first client disconnects. It
//! stops when no response waits for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::dictionary::Dictionary;
use super::kept::{CodedBody, ENTRY, Kept, Key};
use super::memory::{Memory, Share};
use super::options::CompressionOptions;
use crate::origin::encoding::Coding;

/// The number of content bytes that are compressed in one turn.
pub(super) const SLICE: u64 = 32 * 1024;

/// The maximum number of concurrent compressions. Further compressions wait, because an encoder needs several megabytes
/// of memory.
pub(super) const MOST_JOBS: usize = 8;

/// The encoders. The caller provides them, because it has the compression libraries.
pub trait Encoders: fmt::Debug + Send + Sync {
    /// Creates an encoder with a level, for content of `length` bytes; `None` if the coding is not supported. If the
    /// coding needs a dictionary, `dictionary` is its content, and the output must not contain the header of RFC 9842.
    fn start(
        &self,
        coding: Coding,
        level: u32,
        length: u64,
        dictionary: Option<&[u8]>,
    ) -> Option<Box<dyn Encoder>>;
}

/// A running compression. The output does not depend on the division of the content.
pub trait Encoder: Send {
    /// Compresses more content. Returns false if the compression fails.
    fn write(&mut self, bytes: &[u8]) -> bool;

    /// Returns the complete compressed content; `None` if the compression fails.
    fn finish(self: Box<Self>) -> Option<Vec<u8>>;
}

/// Compresses content and caches the result. Origins of several threads may share a compressor.
#[derive(Debug)]
pub struct Compressor {
    options: CompressionOptions,
    encoders: Box<dyn Encoders>,
    memory: Arc<Memory>,
    state: Mutex<State>,
    compressed: AtomicU64,
    reused: AtomicU64,
    with_dictionary: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    kept: Kept,
    /// The running compressions. A compression is dropped when no response waits for it.
    jobs: HashMap<Key, Weak<Job>>,
}

/// The coding, level and dictionary of a compression.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub coding: Coding,
    pub level: u32,
    /// The dictionary, if the coding needs one.
    pub dictionary: Option<Arc<Dictionary>>,
}

/// The compression of one representation.
pub(super) struct Job {
    key: Key,
    length: u64,
    /// The bytes that precede the compressed content.
    header: Vec<u8>,
    progress: Mutex<Progress>,
}

enum Progress {
    Running {
        encoder: Box<dyn Encoder>,
        done: u64,
        share: Share,
    },
    Whole(Arc<CodedBody>),
    Failed,
}

/// The state of a job after a turn.
#[derive(Debug)]
pub(super) enum Advanced {
    Running,
    Whole(Arc<CodedBody>),
    /// The content changed, a read failed, or the encoder failed.
    Failed,
}

/// The result of a response's request for a compressed body.
#[derive(Debug)]
pub(super) enum Joined {
    Kept(Arc<CodedBody>),
    Job(Arc<Job>),
    /// The maximum number of compressions is already running.
    Busy,
    /// Responses use all the memory, or there is no encoder for the coding.
    Impossible,
}

/// The content to compress.
pub(super) trait Content {
    /// Passes up to [`SLICE`] bytes from `offset` to `sink`; returns the number of bytes. `None` if the read or the
    /// sink fails.
    fn read(&mut self, offset: u64, sink: &mut dyn FnMut(&[u8]) -> bool) -> Option<u64>;

    /// Whether the content has not changed since the start of the compression.
    fn is_unchanged(&mut self) -> bool;
}

impl Compressor {
    /// Creates a compressor with an empty cache.
    pub fn new(options: CompressionOptions, encoders: Box<dyn Encoders>) -> Compressor {
        Compressor {
            memory: Memory::of(options.memory.0),
            options,
            encoders,
            state: Mutex::default(),
            compressed: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            with_dictionary: AtomicU64::new(0),
        }
    }

    /// The options of the compressor.
    pub fn options(&self) -> &CompressionOptions {
        &self.options
    }

    /// The number of compressed representations, and the number of responses whose body was cached, since the last
    /// call.
    pub fn take_counts(&self) -> (u64, u64) {
        let order = Ordering::Relaxed;
        (self.compressed.swap(0, order), self.reused.swap(0, order))
    }

    /// The number of responses whose content was compressed with a dictionary, since the last call.
    pub fn take_with_dictionary(&self) -> u64 {
        self.with_dictionary.swap(0, Ordering::Relaxed)
    }

    /// Counts a response whose content was compressed with a dictionary.
    pub(super) fn count_with_dictionary(&self) {
        self.with_dictionary.fetch_add(1, Ordering::Relaxed);
    }

    /// The memory of all compressed bodies in bytes: cached, in responses, and in progress.
    pub fn memory_in_use(&self) -> u64 {
        self.memory.used()
    }

    /// Finds the cached body with this tag.
    pub(super) fn find(&self, key: &Key) -> Option<Arc<CodedBody>> {
        let found = self.state().kept.find(key);
        if found.is_some() {
            self.reused.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Returns the cached body with this tag, or the running compression, or starts a compression.
    pub(super) fn join(&self, key: &Key, recipe: &Recipe, length: u64) -> Joined {
        if let Some(body) = self.find(key) {
            return Joined::Kept(body);
        }
        let mut state = self.state();
        if let Some(job) = state.jobs.get(key).and_then(Weak::upgrade) {
            return Joined::Job(job);
        }
        state.jobs.retain(|_, job| job.strong_count() > 0);
        if state.jobs.len() >= MOST_JOBS {
            return Joined::Busy;
        }
        // Compression enlarges content by less than a sixteenth.
        let dictionary = recipe.dictionary.as_deref();
        let header = dictionary.map_or(Vec::new(), |dictionary| dictionary.header(recipe.coding));
        let most = length + length / 16 + header.len() as u64 + ENTRY;
        let share = loop {
            match self.memory.take(most) {
                Some(share) => break share,
                None if state.kept.evict() => {}
                None => return Joined::Impossible,
            }
        };
        let content = dictionary.map(Dictionary::bytes);
        let started = self
            .encoders
            .start(recipe.coding, recipe.level, length, content);
        let Some(encoder) = started else {
            return Joined::Impossible;
        };
        let job = Arc::new(Job {
            key: *key,
            length,
            header,
            progress: Mutex::new(Progress::Running {
                encoder,
                done: 0,
                share,
            }),
        });
        state.jobs.insert(*key, Arc::downgrade(&job));
        Joined::Job(job)
    }

    /// Compresses one more slice. If another thread is compressing a slice of the same job, waits for that thread.
    pub(super) fn advance(&self, job: &Job, content: &mut impl Content) -> Advanced {
        let mut progress = job.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let Progress::Running { encoder, done, .. } = &mut *progress else {
            return progress.seen();
        };
        let read = content.read(*done, &mut |bytes| encoder.write(bytes));
        *done += read.unwrap_or(0);
        let is_whole = *done == job.length;
        if read.is_some_and(|read| read > 0) && !is_whole {
            return Advanced::Running;
        }
        let ended = std::mem::replace(&mut *progress, Progress::Failed);
        if let Progress::Running { encoder, share, .. } = ended
            && is_whole
            && content.is_unchanged()
            && let Some(bytes) = encoder.finish()
        {
            let body = Arc::new(CodedBody::new(&job.header, &bytes, share));
            let mut state = self.state();
            state.jobs.remove(&job.key);
            state.kept.insert(job.key, Arc::clone(&body));
            self.compressed.fetch_add(1, Ordering::Relaxed);
            *progress = Progress::Whole(body);
        }
        progress.seen()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn seen(&self) -> Advanced {
        match self {
            Progress::Running { .. } => Advanced::Running,
            Progress::Whole(body) => Advanced::Whole(Arc::clone(body)),
            Progress::Failed => Advanced::Failed,
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
