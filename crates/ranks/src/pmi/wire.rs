//! Lines over a file descriptor, with a deadline for each read and write.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{LONGEST_LINE, PmiError, Wire};

/// A launcher at the other end of a descriptor, which is a socket or a pipe. The blocking mode of the descriptor is not
/// changed: the code makes no call that would block.
#[derive(Debug)]
pub struct DescriptorWire {
    descriptor: File,
    clock: Clock,
    deadline: Instant,
    /// Received bytes that are not processed yet.
    inbox: Vec<u8>,
}

impl DescriptorWire {
    /// Creates a wire whose calls fail after `deadline`.
    pub fn new(descriptor: OwnedFd, clock: Clock, deadline: Instant) -> DescriptorWire {
        DescriptorWire {
            descriptor: descriptor.into(),
            clock,
            deadline,
            inbox: Vec::new(),
        }
    }

    /// Waits until the descriptor is ready.
    fn wait(&self, flags: PollFlags, request: &str) -> Result<(), PmiError> {
        loop {
            let left = self.deadline.since(self.clock.now());
            if left.is_zero() {
                let request = request.to_owned();
                return Err(PmiError::Late { request });
            }
            // One call waits at most one second, so that every timeout can be represented.
            let timeout = Timespec::try_from(left.min(Duration::from_secs(1))).ok();
            let mut descriptors = [PollFd::new(&self.descriptor, flags)];
            // An interrupt ends this wait like a time-out; the loop then waits again.
            if matches!(poll(&mut descriptors, timeout.as_ref()), Ok(1..)) {
                return Ok(());
            }
        }
    }
}

fn is_temporary(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

impl Wire for DescriptorWire {
    fn send(&mut self, line: &str) -> Result<(), PmiError> {
        let bytes = format!("{line}\n").into_bytes();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            self.wait(PollFlags::OUT, line)?;
            match self.descriptor.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if is_temporary(error.kind()) => {}
                Err(error) => return Err(PmiError::Ended(error.to_string())),
            }
        }
        Ok(())
    }

    fn receive(&mut self, request: &str) -> Result<String, PmiError> {
        loop {
            if let Some(end) = self.inbox.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.inbox.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.inbox.len() > LONGEST_LINE {
                let answer = String::from_utf8_lossy(&self.inbox[..80]).into_owned();
                let request = request.to_owned();
                return Err(PmiError::Answer { request, answer });
            }
            self.wait(PollFlags::IN, request)?;
            let mut buffer = [0; LONGEST_LINE];
            match self.descriptor.read(&mut buffer) {
                Ok(0) => return Err(PmiError::Ended("it was closed".to_owned())),
                Ok(read) => self.inbox.extend_from_slice(&buffer[..read]),
                Err(error) if is_temporary(error.kind()) => {}
                Err(error) => return Err(PmiError::Ended(error.to_string())),
            }
        }
    }
}
