//! Detects whether the kernel charges the CPU time of receiving a packet to the interrupted thread.
//!
//! A packet sent to the same machine is received immediately, in a softirq during the system call that sent it. Kernels
//! with `CONFIG_IRQ_TIME_ACCOUNTING` do not charge softirq time to the interrupted thread. It then appears only as softirq
//! time of the machine, in no process tree and no control group. Other kernels charge it to the thread: if a thread of a
//! host's group delivers the host's packets, the group is charged for receiving them.
//!
//! A packet that is *written* to a TUN device is received in the write itself, without a softirq on any kernel. The time
//! appears as system time of the machine and of the writing thread. Measured on Linux 6.18 without that option, with one
//! thread that sends to itself: over loopback and veth, a quarter to a third of the machine's kernel time is softirq time;
//! over TUN, none. In all three cases all of the time is charged to the thread. Only the sum,
//! [`ProcessorTimes::kernel`](super::ProcessorTimes::kernel), can be compared between machines.
//!
//! Not every user can read a kernel's build options, so this module measures: while a thread sends to itself, it
//! compares the thread's CPU-time clock with the wall clock.

use std::net::UdpSocket;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Result};

const BURSTS: usize = 300;
const DATAGRAMS: usize = 16;

/// The measured charging of softirq time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Charging {
    /// The share of time that was not charged to the sending thread in a burst of datagrams; the smallest share of some
    /// hundreds of bursts, because preemption by other threads can only increase the share.
    pub uncharged: f64,
}

impl Charging {
    /// Whether softirq time is accounted separately. Then the CPU time of a host is the time of its processes *plus*
    /// a share of the machine's softirq time.
    pub fn softirq_apart(&self) -> bool {
        // Receiving takes about half of the measured time; reading the clocks takes a few per cent.
        self.uncharged > 0.15
    }
}

/// Measures how softirq time is charged, over the loopback device, in about 30 ms.
pub fn charging() -> Result<Charging> {
    let doing = "send a datagram over the loopback device";
    let socket = UdpSocket::bind("127.0.0.1:0").doing(doing)?;
    socket
        .connect(socket.local_addr().doing(doing)?)
        .doing(doing)?;
    socket.set_nonblocking(true).doing(doing)?;
    let datagram = [0; 64];
    let mut answer = [0; 64];
    let mut smallest = 1f64;
    for _ in 0..BURSTS {
        // The wall-clock readings are between the readings of the thread's clock, so the time of the readings never
        // counts as uncharged.
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
