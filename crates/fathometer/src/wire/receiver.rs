//! A host's receiving end as a process of its own, so that the work of receiving can be charged to the
//! host.
//!
//! A packet that is written to a device runs the receiver's TCP on the writing thread: what an
//! interrupt does on a real machine. Where a host has little processor time to spend, that work
//! must come out of its budget, and the path must not wait for it. So the path puts packets into a
//! ring, as a wire puts them into a network interface, and this process takes them out. It comes
//! before the host's programs, as interrupts do, and is stopped with them when the budget is
//! spent. Then the ring fills, and what finds it full is lost, as in a network interface.
//!
//! It is a process and no thread because control groups of version 2 take whole processes where they
//! limit memory or the disk. It is this program, started as `fathometer receive-packets`: the fork of a
//! program with much memory would copy each page that the program writes to afterwards. Its standard input is
//! a socket, over which it is handed the device, the ring and what wakes it, says that it is ready, and
//! says what went wrong. It ends when the other end of that socket is closed, which the kernel does however
//! this program ends. It is put into the host's group when it is ready: what memory it has is not the
//! host's.

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

/// The command line argument that makes a process of this program a receiver.
pub const ARGUMENT: &str = "receive-packets";

/// Packets that a ring holds: what network interfaces commonly have.
const RING: u32 = 1024;

/// How long the process may take until it is ready: starting a program under emulation takes seconds.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// What it says when it is ready.
const READY: u8 = b'r';

/// What it says before it says what went wrong.
const FAILED: u8 = b'!';

/// The most bytes of that.
const LONGEST_WORDS: u64 = 1000;

const STARTING: &str = "start the process that receives a host's packets";

/// The path's side of a host's ring.
#[derive(Debug)]
pub(super) struct Ring {
    sender: PacketSender,
    waker: Waker,
}

impl Ring {
    /// Puts a copy of a packet into the ring; says whether there was room.
    pub(super) fn push(&mut self, packet: &[u8]) -> bool {
        let pushed = self.sender.push(packet);
        if self.sender.must_wake() {
            self.waker.wake();
        }
        pushed
    }
}

/// The receiving process of one host. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Receiver {
    ring: PacketRing,
    process: Child,
    control: UnixStream,
}

impl Receiver {
    /// Starts the process that writes to `device`, and gives the path's side of its ring.
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
            // Ctrl-C at the terminal is for the program that started it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // From here on it is ended with the value.
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
            // A read that has a time limit is ended by signals, which ask this program to end well.
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
                let mut said = Vec::new();
                let _ = (&self.control).take(LONGEST_WORDS).read_to_end(&mut said);
                io::Error::other(String::from_utf8_lossy(&said).into_owned())
            }
            (Ok(_), _) => io::Error::other("it ended before it was ready"),
            (Err(error), _) => error,
        };
        Err(Error::System {
            doing: STARTING.to_owned(),
            source,
        })
    }

    /// The process, as the kernel numbers it.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Packets that the device refused.
    pub(super) fn refused(&self) -> u64 {
        self.ring.refused()
    }

    /// Ends the process, if it has not ended: then, and only then, something went wrong, and that is
    /// returned.
    pub(super) fn stop(&mut self) -> Option<String> {
        let ended = self.process.try_wait().ok().flatten();
        if ended.is_none() {
            // It keeps nothing that could be lost.
            let _ = self.process.kill();
            let _ = self.process.wait();
            return None;
        }
        ended.map(|status| self.last_words(status))
    }

    fn last_words(&self, status: ExitStatus) -> String {
        let mut said = Vec::new();
        let _ = self.control.set_nonblocking(true);
        let _ = (&self.control).take(LONGEST_WORDS).read_to_end(&mut said);
        let said =
            String::from_utf8_lossy(said.strip_prefix(&[FAILED]).unwrap_or(&said)).into_owned();
        match said.as_str() {
            "" => status.to_string(),
            said => format!("{said} ({status})"),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Receives packets, as the process that was started for it, until nobody has the other end of `control`
/// any more. What goes wrong is said there.
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
    helper::ignore_requests_to_end()?;
    // Without these rights programs may come before packets, within the same budget, and a host that
    // runs out of memory may lose its receiver, which its measurement then says.
    let _ = priority::put_before_others();
    let _ = helper::spare_from_lack_of_memory();
    let [device, ring, wake] = handover::receive(control)?;
    let device = TunInput::from(device);
    let mut ring = PacketReceiver::open(ring.as_fd())?;
    let mut waiter = Waiter::woken_by(Clock::start(), Waker::from(wake))?;
    (&mut &*control)
        .write_all(&[READY])
        .map_err(|source| Error::System {
            doing: "say that packets can be received".to_owned(),
            source,
        })?;
    loop {
        loop {
            let mut refused = false;
            let taken = ring.take(|packet| refused = device.write(packet).is_err());
            if refused {
                ring.refuse();
            }
            if !taken {
                break;
            }
        }
        if ring.may_sleep() {
            // Nothing is ever said to this process: readable is the end.
            let ready = waiter.wait(&[(control.as_fd(), Interest::Read)], None)?;
            if ready.readable(0) {
                return Ok(());
            }
        }
    }
}
