//! Reads and writes file descriptors. A wait for a pipe ends when the user interrupts the program.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fathometer_sys::Interrupt;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::PackageError;

/// The number of bytes to read or write in one step.
pub const CHUNK: usize = 256 * 1024;

/// A file or a stream to read from or write to.
#[derive(Debug)]
pub struct Flow {
    file: File,
    path: PathBuf,
    /// Whether reads or writes may block: true for a pipe, a socket or a terminal.
    waits: bool,
    interrupt: Interrupt,
}

impl Flow {
    /// Opens a file for reading; `-` is stdin.
    pub fn read_from(path: &Path, interrupt: Interrupt) -> Result<Flow, PackageError> {
        if path.as_os_str() == "-" {
            return Flow::stream(io::stdin().as_fd(), "stdin", interrupt);
        }
        let opened = File::open(path).map_err(PackageError::system("open", path))?;
        Flow::new(opened, path, interrupt)
    }

    /// Opens stdout.
    pub fn stdout(interrupt: Interrupt) -> Result<Flow, PackageError> {
        Flow::stream(io::stdout().as_fd(), "stdout", interrupt)
    }

    fn stream(
        descriptor: impl AsFd,
        name: &str,
        interrupt: Interrupt,
    ) -> Result<Flow, PackageError> {
        let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, 0)
            .map_err(|error| PackageError::system("use", Path::new(name))(error.into()))?;
        Flow::new(File::from(copy), Path::new(name), interrupt)
    }

    /// Wraps an open file; `path` is used in messages.
    pub fn new(file: File, path: &Path, interrupt: Interrupt) -> Result<Flow, PackageError> {
        let data = file
            .metadata()
            .map_err(PackageError::system("examine", path))?;
        if data.is_dir() {
            let error = Errno::ISDIR.into();
            return Err(PackageError::system("read", path)(error));
        }
        Ok(Flow {
            waits: !data.is_file(),
            file,
            path: path.to_owned(),
            interrupt,
        })
    }

    /// Returns the path for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        rustix::termios::isatty(&self.file)
    }

    /// Reads once, up to the length of `buffer`. Returns 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, PackageError> {
        loop {
            self.wait_until(PollFlags::IN)?;
            match self.file.read(buffer) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(PackageError::system("read", &self.path)(error)),
            }
        }
    }

    /// Writes all bytes.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), PackageError> {
        while !bytes.is_empty() {
            self.wait_until(PollFlags::OUT)?;
            match self.file.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_passing(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(PackageError::ReaderClosed(self.path.clone()));
                }
                Err(error) => return Err(PackageError::system("write", &self.path)(error)),
            }
        }
        Ok(())
    }

    /// Returns the file descriptor.
    pub fn descriptor(&self) -> &File {
        &self.file
    }

    fn wait_until(&self, ready: PollFlags) -> Result<(), PackageError> {
        while self.waits && !self.interrupt.is_raised() {
            let mut descriptors = [
                PollFd::new(&self.file, ready),
                PollFd::new(&self.interrupt, PollFlags::IN),
            ];
            match poll(&mut descriptors, None) {
                Ok(_) if !descriptors[0].revents().is_empty() => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(PackageError::system("wait for", &self.path)(error.into()));
                }
            }
        }
        match self.interrupt.is_raised() {
            true => Err(PackageError::Interrupted),
            false => Ok(()),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}
