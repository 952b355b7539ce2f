//! Reading and writing descriptors. A wait for a pipe ends when the user interrupts the program.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use fathometer_sys::Interrupt;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::PackageError;

/// Number of bytes to read or write at once.
pub const CHUNK: usize = 256 * 1024;

/// A file or a stream to read from or write to.
#[derive(Debug)]
pub struct Flow {
    file: File,
    path: PathBuf,
    /// Whether reads or writes may block: true for a pipe, a socket, a terminal.
    waits: bool,
    /// Its length, if it is a regular file.
    length: Option<u64>,
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

    /// Stdout.
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

    /// An open file; `path` is used in messages.
    pub fn new(file: File, path: &Path, interrupt: Interrupt) -> Result<Flow, PackageError> {
        let data = file
            .metadata()
            .map_err(PackageError::system("look at", path))?;
        if data.is_dir() {
            let error = Errno::ISDIR.into();
            return Err(PackageError::system("read", path)(error));
        }
        Ok(Flow {
            waits: !data.is_file(),
            length: data.is_file().then_some(data.len()),
            file,
            path: path.to_owned(),
            interrupt,
        })
    }

    /// Its path for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        rustix::termios::isatty(&self.file)
    }

    /// Its length, if it is a regular file.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Reads once, up to the length of `buffer`; returns 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, PackageError> {
        loop {
            self.wait_until(PollFlags::IN)?;
            match self.file.read(buffer) {
                Ok(octets) => return Ok(octets),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(PackageError::system("read", &self.path)(error)),
            }
        }
    }

    /// An adapter for [`std::io::Read`].
    pub fn reading(&mut self) -> Reading<'_> {
        Reading {
            flow: self,
            failure: None,
        }
    }

    /// Writes all bytes.
    pub fn write(&mut self, mut octets: &[u8]) -> Result<(), PackageError> {
        while !octets.is_empty() {
            self.wait_until(PollFlags::OUT)?;
            match self.file.write(octets) {
                Ok(written) => octets = &octets[written..],
                Err(error) if is_passing(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(PackageError::ReaderGone(self.path.clone()));
                }
                Err(error) => return Err(PackageError::system("write", &self.path)(error)),
            }
        }
        Ok(())
    }

    /// The descriptor.
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

/// Adapts a flow to [`std::io::Read`] and keeps the error.
#[derive(Debug)]
pub struct Reading<'f> {
    flow: &'f mut Flow,
    /// Why reading failed, if it did.
    pub failure: Option<PackageError>,
}

impl io::Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.flow.read(buffer).map_err(|error| {
            self.failure = Some(error);
            io::Error::other("reading failed")
        })
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// Opens a regular file below a folder for reading, without blocking if it has become a pipe. Returns its
/// metadata too.
pub(super) fn open_below(folder: &OwnedFd, path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = File::from(openat(folder, path, flags, Mode::empty())?);
    let data = file.metadata()?;
    match data.is_file() {
        true => Ok((file, data)),
        false => Err(io::Error::other("it is no regular file")),
    }
}
