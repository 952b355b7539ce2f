//! A separate process that receives packets for a host, so that this work can be charged to the host.
//!
//! A write of a packet to a device runs the receiver's TCP on the writing thread, as an interrupt does on a real
//! machine. If a host has little CPU time, this work must be charged to its budget, and the path must not wait for the
//! work. The path therefore writes packets to a ring, as a network interface does, and this process reads them from the
//! ring. The process has priority over the host's programs, as interrupts have. When the budget is used up, the process
//! is throttled together with them. The ring then fills, and further packets are lost, as in a network interface.
//!
//! The receiver is a process, not a thread, because control groups of version 2 that limit memory or the disk contain
//! only whole processes. The process executes `fathometer receive-packets`. A fork without exec would be slow: the
//! kernel would copy every page that the large parent process writes to. Its standard input is a socket. Over this
//! socket, the process receives the descriptors of the device, the ring and the waker, reports that it is ready, and
//! reports errors. It exits when the other end of the socket is closed; the kernel closes that end when the starting
//! program exits for any reason. The process joins the host's group when it is ready, so that its memory is not charged
//! to the host.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fathometer_sys::{
    Clock, Error, Interest, PacketReceiver, PacketRing, PacketSender, Result, Tun, TunInput,
    Waiter, Waker, handover, helper, priority,
};

use crate::program;

/// The command-line argument that makes this program a receiver.
pub const ARGUMENT: &str = "receive-packets";

/// The number of packets in a ring, which is a common size for network interfaces.
const RING: u32 = 1024;

/// The longest wait until the process is ready: starting a program under emulation takes seconds.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The byte that reports readiness.
const READY: u8 = b'r';

/// The byte that precedes an error message.
const FAILED: u8 = b'!';

/// The maximum length of an error message, in bytes.
const LONGEST_WORDS: u64 = 1000;

const STARTING: &str = "start the process that receives a host's packets";

/// The path's side of a host's ring.
#[derive(Debug)]
pub(super) struct Ring {
    sender: PacketSender,
    waker: Waker,
}

impl Ring {
    /// Copies a packet into the ring. Returns whether the ring had space.
    pub(super) fn push(&mut self, packet: &[u8]) -> bool {
        let pushed = self.sender.push(packet);
        if self.sender.must_wake() {
            self.waker.wake();
        }
        pushed
    }
}

/// The receiving process of one host. Dropping the value stops the process.
#[derive(Debug)]
pub(super) struct Receiver {
    ring: PacketRing,
    process: Child,
    control: UnixStream,
}

impl Receiver {
    /// Starts the process that writes to `device`, and returns the path's side of its ring.
    pub(super) fn start(device: &Arc<Tun>) -> Result<(Receiver, Ring)> {
        let (ring, sender) = PacketRing::create(RING, device.mtu())?;
        let waker = Waker::new()?;
        let failed = |source| Error::System {
            doing: STARTING.to_owned(),
            source,
        };
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let process = Command::new(program::ours())
            .arg(ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal must reach only the program that started this process.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // After this line, dropping the value stops the process.
        let receiver = Receiver {
            ring,
            process,
            control,
        };
        receiver.hand_over(device, &waker)?;
        Ok((receiver, Ring { sender, waker }))
    }

    fn hand_over(&self, device: &Tun, waker: &Waker) -> Result<()> {
        let descriptors = [device.as_fd(), self.ring.as_fd(), waker.as_fd()];
        handover::send(&self.control, &descriptors)?;
        let mut answer = [0];
        let mut read = || loop {
            // A signal that asks this program to exit interrupts a read with a timeout; the read is retried.
            match (&self.control).read(&mut answer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answered => return answered,
            }
        };
        let limited = self.control.set_read_timeout(Some(READY_WITHIN));
        let answered = limited.and_then(|()| read());
        let source = match (answered, answer) {
            (Ok(1), [READY]) => return Ok(()),
            (Ok(1), _) => {
                let mut message = Vec::new();
                let _ = (&self.control)
                    .take(LONGEST_WORDS)
                    .read_to_end(&mut message);
                io::Error::other(String::from_utf8_lossy(&message).into_owned())
            }
            (Ok(_), _) => io::Error::other("it exited before it was ready"),
            (Err(error), _) => error,
        };
        Err(Error::System {
            doing: STARTING.to_owned(),
            source,
        })
    }

    /// The process ID.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The number of packets that the device refused.
    pub(super) fn refused(&self) -> u64 {
        self.ring.refused()
    }

    /// Stops the process. If the process has already exited, returns its exit reason as the error.
    pub(super) fn stop(&mut self) -> Option<String> {
        let ended = match self.process.try_wait() {
            Ok(ended) => ended,
            // Another caller reaped the process, so its ID may now belong to another process.
            Err(error) => return Some(format!("its exit status is unknown: {error}")),
        };
        if ended.is_none() {
            // The process has no state that could be lost, so it can be killed.
            let _ = self.process.kill();
            let _ = self.process.wait();
            return None;
        }
        ended.map(|status| self.last_words(status))
    }

    fn last_words(&self, status: ExitStatus) -> String {
        let mut message = Vec::new();
        let _ = self.control.set_nonblocking(true);
        let _ = (&self.control)
            .take(LONGEST_WORDS)
            .read_to_end(&mut message);
        let message = String::from_utf8_lossy(message.strip_prefix(&[FAILED]).unwrap_or(&message))
            .into_owned();
        match message.as_str() {
            "" => status.to_string(),
            message => format!("{message} ({status})"),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs the receiver process: receives packets until the other end of `control` is closed. Reports errors over
/// `control`.
pub fn serve(control: &UnixStream) -> Result<()> {
    receive(control).inspect_err(|error| {
        let mut words = vec![FAILED];
        words.extend_from_slice(error.to_string().as_bytes());
        let _ = (&mut &*control).write_all(&words);
        let _ = control.shutdown(Shutdown::Write);
    })
}

fn receive(control: &UnixStream) -> Result<()> {
    helper::set_name(c"host-receive")?;
    helper::ignore_termination_signals()?;
    // Without the first right, programs may run before packets are received within the same budget. Without the second,
    // the receiver may be killed if its host is out of memory. The measurement then reports that.
    let _ = priority::raise_priority();
    let _ = helper::exempt_from_oom_killer();
    let [device, ring, wake] = handover::receive(control)?;
    let device = TunInput::from(device);
    let mut ring = PacketReceiver::open(ring.as_fd())?;
    let mut waiter = Waiter::with_waker(Clock::start(), Waker::from(wake))?;
    (&mut &*control)
        .write_all(&[READY])
        .map_err(|source| Error::System {
            doing: "report that packets can be received".to_owned(),
            source,
        })?;
    loop {
        loop {
            let mut refused = false;
            let taken = ring.take(|packet| refused = device.write(packet).is_err());
            if refused {
                ring.count_refused();
            }
            if !taken {
                break;
            }
        }
        if ring.may_sleep() {
            // The path sends no data to this process: if the socket is readable, it was closed.
            let ready = waiter.wait(&[(control.as_fd(), Interest::Read)], None)?;
            if ready.readable(0) {
                return Ok(());
            }
        }
    }
}
