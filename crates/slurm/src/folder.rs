//! Creates and reads the folder of a submitted job.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fathometer_cluster::slurm::files;

use crate::JobError;

/// Returns the absolute path of the folder: the folder of the user, or the first unused name in the current folder.
///
/// # Errors
/// If the current folder is unknown.
pub fn choose(given: Option<&Path>) -> Result<PathBuf, JobError> {
    let chosen = match given {
        Some(folder) => folder.to_owned(),
        None => (1..)
            .map(|number| PathBuf::from(format!("fathometer-job-{number}")))
            .find(|name| !name.exists())
            .expect("an unused number exists"),
    };
    Ok(std::path::absolute(chosen)?)
}

/// Creates the folder with the script and these empty files.
///
/// # Errors
/// If the folder exists, because it may contain the files of another job.
pub fn make<S: AsRef<Path>>(
    folder: &Path,
    script: &[u8],
    followed: impl IntoIterator<Item = S>,
) -> Result<(), JobError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => JobError::Failed(format!(
            "the folder {} exists; give another with --folder",
            folder.display()
        )),
        _ => JobError::Failed(format!(
            "cannot create the folder {}: {error}",
            folder.display()
        )),
    };
    fs::create_dir(folder).map_err(refused)?;
    write(&folder.join(files::SCRIPT), script, 0o755)?;
    for name in followed {
        write(&folder.join(name), b"", 0o644)?;
    }
    Ok(())
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), JobError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(content));
    written.map_err(|error| JobError::Failed(format!("cannot write {}: {error}", path.display())))
}

/// Reads the exit code in the folder; `None` if the job has not written the code yet.
///
/// # Errors
/// If the file contains no exit code.
pub fn exit_code(folder: &Path) -> Result<Option<u8>, JobError> {
    code_in(&folder.join(files::EXIT_CODE))
}

/// Reads the exit code in a file; `None` if the code is not written yet.
///
/// # Errors
/// If the file contains no exit code.
pub fn code_in(file: &Path) -> Result<Option<u8>, JobError> {
    // Read errors are ignored, because network file systems can fail temporarily. The next poll reads the file again.
    let content = fs::read(file).unwrap_or_default();
    Ok(files::exit_code(&content)?)
}

/// A file whose appended bytes are copied.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    copied: u64,
}

impl Tail {
    /// Creates a tail that has copied nothing yet.
    pub fn new(path: PathBuf) -> Tail {
        Tail { path, copied: 0 }
    }

    /// Passes the bytes that were appended since the last call to `pass`. The file is opened each time, so that an NFS
    /// client requests the current content from its server.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn copy(&mut self, mut pass: impl FnMut(&[u8])) -> io::Result<()> {
        let mut file = fs::File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.copied))?;
        let mut block = [0; 1 << 16];
        loop {
            match file.read(&mut block)? {
                0 => return Ok(()),
                read => {
                    pass(&block[..read]);
                    self.copied += read as u64;
                }
            }
        }
    }
}
