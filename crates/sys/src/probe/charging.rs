//! To whom the kernel charges the work of receiving a packet.
//!
//! A packet that is sent to this very machine is received there and then, in a softirq on top of
//! the system call that sent it. Kernels with `CONFIG_IRQ_TIME_ACCOUNTING` take the time of
//! softirqs out of the account of the thread below; then it shows as softirq of the machine alone,
//! and neither a process tree nor a control group has it. Other kernels leave it with the thread:
//! a host whose packets are delivered by a thread of its group pays for receiving them.
//!
//! A packet that is *written* to a TUN is received in the write itself and is no softirq on any
//! kernel: it shows as system time, of the machine and of the writing thread. Seen on Linux 6.18
//! without that option, one thread sending to itself: over loopback and veth a quarter to a third
//! of the machine's kernel time is softirq, over TUN nothing is, and in all three cases the thread
//! is charged with everything. What can be compared between machines is therefore
//! [`ProcessorTimes::kernel`](super::ProcessorTimes::kernel), the sum.
//!
//! Kernels do not say how they were built where everybody could read it, so it is tried: while a
//! thread sends to itself, its own clock either keeps up with the wall clock or does not.

use std::net::UdpSocket;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Result};

const BURSTS: usize = 300;
const DATAGRAMS: usize = 16;

/// The answer, and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Charging {
    /// The smallest share of the time of a burst of datagrams that the sending thread was not
    /// charged with, of some hundreds of bursts: others that take the processor away can only make
    /// it larger.
    pub uncharged: f64,
}

impl Charging {
    /// Whether softirqs have an account of their own, so that the processor time of a host is that
    /// of its processes *and* a share of the machine's softirq time.
    pub fn softirq_apart(&self) -> bool {
        // Receiving is about half of the work; reading the clocks accounts for some per cent.
        self.uncharged > 0.15
    }
}

/// Tries it, over the loopback device, for some 30 ms.
pub fn charging() -> Result<Charging> {
    let doing = "send to oneself over the loopback device";
    let socket = UdpSocket::bind("127.0.0.1:0").doing(doing)?;
    socket
        .connect(socket.local_addr().doing(doing)?)
        .doing(doing)?;
    socket.set_nonblocking(true).doing(doing)?;
    let datagram = [0; 64];
    let mut answer = [0; 64];
    let mut smallest = 1f64;
    for _ in 0..BURSTS {
        // The wall clock is read within the thread's own: reading it is never found missing.
        let own = now(ClockId::ThreadCPUTime);
        let wall = now(ClockId::Monotonic);
        for _ in 0..DATAGRAMS {
            socket.send(&datagram).doing(doing)?;
        }
        let wall = now(ClockId::Monotonic) - wall;
        let own = now(ClockId::ThreadCPUTime) - own;
        let uncharged = 1.0 - own.as_secs_f64() / wall.as_secs_f64();
        smallest = smallest.min(uncharged.max(0.0));
        while socket.recv(&mut answer).is_ok() {}
    }
    Ok(Charging {
        uncharged: smallest,
    })
}

fn now(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_or_the_other_and_the_same_again() {
        let first = charging().unwrap();
        let second = charging().unwrap();
        assert!((0.0..=1.0).contains(&first.uncharged), "{first:?}");
        assert_eq!(first.softirq_apart(), second.softirq_apart());
        println!("{first:?} {second:?}");
    }
}
