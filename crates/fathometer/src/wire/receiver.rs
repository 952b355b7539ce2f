//! A host's receiving end with a thread of its own, so that the work of receiving can be charged to
//! the host.
//!
//! A packet that is written to a device runs the receiver's TCP on the writing thread: what an
//! interrupt does on a real machine. Where a host has little processor time to spend, that work
//! must come out of its budget, and the path must not wait for it. So the path puts packets into a
//! ring, as a wire puts them into a network interface, and this thread takes them out. It comes
//! before the host's programs, as interrupts do, and is stopped with them when the budget is
//! spent. Then the ring fills, and what finds it full is lost, as in a network interface.
//!
//! Nothing here locks: a thread that is stopped in the middle of anything must not stop the path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use crossbeam_queue::ArrayQueue;
use fathometer_sys::{Clock, Error, Result, Tun, Waiter, Waker, priority};

/// Packets that a ring holds: what network interfaces commonly have.
const RING: usize = 1024;

/// A packet in a buffer that may be longer.
type Packet = (Box<[u8]>, usize);

/// The path's side of a host's ring.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Debug)]
struct Shared {
    packets: ArrayQueue<Packet>,
    /// Buffers on their way back.
    spent: ArrayQueue<Box<[u8]>>,
    /// Whether the thread sleeps, or is about to, and must be woken.
    asleep: AtomicBool,
    stop: AtomicBool,
    refused: AtomicU64,
}

impl Ring {
    /// Puts a packet into the ring, or gives its buffer back when the ring is full.
    pub(super) fn push(
        &self,
        buffer: Box<[u8]>,
        length: usize,
    ) -> std::result::Result<(), Box<[u8]>> {
        let pushed = self.shared.packets.push((buffer, length));
        if self.shared.asleep.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
        pushed.map_err(|(buffer, _)| buffer)
    }

    /// A buffer whose packet was received.
    pub(super) fn spent(&self) -> Option<Box<[u8]>> {
        self.shared.spent.pop()
    }
}

/// The receiving thread of one host. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Receiver {
    ring: Ring,
    thread: Option<JoinHandle<()>>,
    thread_id: u32,
}

impl Receiver {
    /// Starts the thread that writes to `device`.
    pub(super) fn start(device: &Arc<Tun>, clock: Clock) -> Result<Receiver> {
        let shared = Arc::new(Shared {
            packets: ArrayQueue::new(RING),
            spent: ArrayQueue::new(RING),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        });
        let (tell, told) = sync_channel(1);
        let thread = {
            let (shared, device) = (Arc::clone(&shared), Arc::clone(device));
            std::thread::Builder::new()
                .name("host-receive".to_owned())
                .spawn(move || {
                    // Without the right to it, programs may come before packets; the budget is the
                    // same.
                    let _ = priority::put_before_others();
                    let id = fathometer_sys::cgroup::thread_number();
                    let waiter = match Waiter::new(clock) {
                        Ok(waiter) => waiter,
                        Err(error) => {
                            let _ = tell.send(Err(error));
                            return;
                        }
                    };
                    let _ = tell.send(Ok((waiter.waker(), id)));
                    receive(&shared, &device, waiter);
                })
                .map_err(|source| Error::System {
                    doing: "start a thread".to_owned(),
                    source,
                })?
        };
        let (waker, thread_id) = told.recv().expect("the thread tells before it ends")?;
        Ok(Receiver {
            ring: Ring { shared, waker },
            thread: Some(thread),
            thread_id,
        })
    }

    /// The path's side.
    pub(super) fn ring(&self) -> Ring {
        self.ring.clone()
    }

    /// The thread, as the kernel numbers it.
    pub(super) fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// Packets that the device refused.
    pub(super) fn refused(&self) -> u64 {
        self.ring.shared.refused.load(Ordering::Acquire)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ring.shared.stop.store(true, Ordering::Release);
        self.ring.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn receive(shared: &Shared, device: &Tun, mut waiter: Waiter) {
    while !shared.stop.load(Ordering::Acquire) {
        while let Some((buffer, length)) = shared.packets.pop() {
            if device.write(&buffer[..length]).is_err() {
                shared.refused.fetch_add(1, Ordering::AcqRel);
            }
            // More than the ring held are never on their way.
            let _ = shared.spent.push(buffer);
        }
        shared.asleep.store(true, Ordering::Release);
        // A packet that came before the mark was set has not woken anybody.
        if !shared.packets.is_empty() || shared.stop.load(Ordering::Acquire) {
            shared.asleep.store(false, Ordering::Release);
            continue;
        }
        if waiter.wait(&[], None).is_err() {
            return;
        }
    }
}
