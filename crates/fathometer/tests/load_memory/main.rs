//! Checks that a warm load engine allocates nothing per exchange, that its memory does not grow with time, and that an
//! idle user needs little memory.
//!
//! A separate test program, because its allocator counts the memory of the whole process. Its tests run one at a
//! time.

#![expect(unsafe_code, reason = "a counting allocator, whose trait is unsafe")]

mod idle;
#[path = "../support"]
mod support {
    pub mod alone;
    pub mod serving;
}

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_http::h2;
use fathometer_http::h2::frame::{FrameType, Header, flags, write};
use fathometer_load::timeline::{Part, Spares, Timeline};
use fathometer_load::{Limit, MOST_INTERVALS, Options, Users, run};
use fathometer_sys::poller::Poller;
use fathometer_sys::{Clock, SocketOptions, machine, socket};
use fathometer_workload::arrivals::{Arrivals, Profile};
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::{Plan, Sessions, Target};

use support::alone::alone;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, which counts the calls and bytes of all threads.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator; counting only uses atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's obligations are forwarded unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's obligations are forwarded unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The only response of the server.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 11\r\n\r\nhello world";

/// A server with one thread that allocates nothing while it answers.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start() -> Server {
        Server::speaking(false)
    }

    /// Starts a server, over HTTP/2 in cleartext if `http2` is true.
    fn speaking(http2: bool) -> Server {
        let local = "127.0.0.1:0".parse().unwrap();
        let listener = socket::listen(local, 4096, &SocketOptions::default()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let address = listener.local_addr().unwrap();
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut poller = Poller::new(256).unwrap();
            poller.add(listener.as_fd(), u64::MAX - 1).unwrap();
            let mut streams: Vec<TcpStream> = Vec::with_capacity(20_000);
            let mut buffer = [0; 16 * 1024];
            let mut out = Vec::with_capacity(64 * 1024);
            while !ends.load(Ordering::SeqCst) {
                let ready = poller.wait(Some(Duration::from_millis(50))).unwrap();
                for place in 0..ready {
                    let token = poller.ready(place).token;
                    if token != u64::MAX - 1 {
                        let stream = &mut streams[token as usize];
                        match http2 {
                            false => answer(stream, &mut buffer),
                            true => answer_frames(stream, &mut buffer, &mut out),
                        }
                        continue;
                    }
                    while let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true).unwrap();
                        poller.add(&stream, streams.len() as u64).unwrap();
                        streams.push(stream);
                    }
                }
            }
        });
        Server {
            address,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // The server's memory must not be freed during the next test.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers every request that has arrived. In these tests, requests arrive complete.
fn answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    while let Ok(length @ 1..) = stream.read(buffer) {
        let requests = buffer[..length].windows(4).filter(|end| end == b"\r\n\r\n");
        for _ in 0..requests.count() {
            stream.write_all(ANSWER).unwrap();
        }
    }
}

/// Same as [`answer`], over HTTP/2. In these tests, frames also arrive complete.
fn answer_frames(stream: &mut TcpStream, buffer: &mut [u8], out: &mut Vec<u8>) {
    while let Ok(length @ 1..) = stream.read(buffer) {
        let mut input = &buffer[..length];
        out.clear();
        if let Some(rest) = input.strip_prefix(h2::PREFACE) {
            input = rest;
            write::settings(out, std::iter::empty());
        }
        while let Some((head, rest)) = input.split_first_chunk() {
            let header = Header::parse(head);
            input = &rest[header.length as usize..];
            match header.kind {
                FrameType::SETTINGS if !header.has(flags::ACK) => {
                    write::settings_acknowledged(out);
                }
                FrameType::HEADERS => {
                    let carrier = write::Carrier::Headers {
                        end_stream: false,
                        dependency: None,
                    };
                    // `:status: 200` and `content-length: 11`, from the static table; the dynamic table is not changed.
                    write::header_block(out, header.stream, carrier, 16_384, |block| {
                        block.extend_from_slice(b"\x88\x0f\x0d\x0211");
                    });
                    write::data_header(out, header.stream, 11, true);
                    out.extend_from_slice(b"hello world");
                }
                _ => {}
            }
        }
        stream.write_all(out).unwrap();
    }
}

fn options(server: &Server, users: Users, policy: &str) -> Options {
    let plan = Arc::new(Plan::single(Target::get("/", None)));
    Options {
        users,
        policy: policy.parse().unwrap(),
        // The interval is so long that it does not end within a test.
        interval: Duration::from_secs(100),
        ..Options::new(server.address, "localhost", plan)
    }
}

fn carry_out(options: Options) -> LoadResult {
    run(options, Clock::start(), &|| false, &mut |_| {}).unwrap()
}

#[test]
fn a_warm_loop_exchanges_without_allocating() {
    let _alone = alone();
    let rate = Profile::constant(40_000.0).unwrap();
    let open = Users::Open {
        arrivals: Arrivals::constant(rate),
        connections: 16,
    };
    for (users, policy) in [
        (Users::closed(16), "h1.1"),
        (Users::closed(4), "h1.1-pipeline16"),
        (open.clone(), "h1.1"),
        (Users::closed(4), "h2c-streams16"),
        (open, "h2c"),
    ] {
        let server = Server::speaking(policy.starts_with("h2"));
        let allocations = |exchanges| {
            let mut options = options(&server, users.clone(), policy);
            options.limit = Limit::Exchanges(exchanges);
            let before = ALLOCATIONS.load(Ordering::SeqCst);
            let result = carry_out(options);
            assert_eq!(result.measured.counts.completed, exchanges);
            (ALLOCATIONS.load(Ordering::SeqCst) - before) as i64
        };
        let few = allocations(2_000);
        let many = allocations(22_000);
        // A longer test may measure a longer latency, for which histograms grow.
        assert!(many - few < 300, "{policy}: {few} and {many}");
    }
}

#[test]
fn ten_thousand_users_that_pause_fit_into_64_mebibytes() {
    let _alone = alone();
    // Both ends of every connection are in this process.
    let most = machine::raise_open_files().saturating_sub(200) / 2;
    let users = most.min(4000) as u32;
    let server = Server::start();
    let mut options = options(&server, Users::closed(users), "h1.1");
    options.plan = Arc::new(Plan {
        sessions: Sessions {
            pages: None,
            off: Some(Law::Fixed(600.0)),
        },
        ..Plan::single(Target::get("/", None))
    });
    options.users = Users::Closed {
        users,
        start_interval: Duration::from_micros(100),
        steps: Vec::new(),
    };
    options.interval = Duration::from_millis(100);
    options.limit = Limit::Time(Duration::from_secs(60));
    let before = LIVE.load(Ordering::SeqCst);
    let mut held = 0;
    let all = AtomicBool::new(false);
    let result = run(
        options,
        Clock::start(),
        &|| all.load(Ordering::SeqCst),
        &mut |live| {
            let first = !all.load(Ordering::SeqCst);
            if first && live.so_far.completed == u64::from(users) {
                assert_eq!(live.last.connections, u64::from(users));
                held = LIVE.load(Ordering::SeqCst) - before;
                all.store(true, Ordering::SeqCst);
            }
        },
    )
    .unwrap();
    assert_eq!(result.measured.counts.completed, u64::from(users));
    let for_each = held as f64 / f64::from(users);
    eprintln!("{for_each:.0} bytes for each of {users} users");
    assert!(
        for_each * 10_000.0 < f64::from(64 << 20),
        "{for_each} bytes a user"
    );
}

/// Reads the resident memory of this process, in bytes.
fn resident() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Returns a loop's part of an interval, with latencies of all sizes.
fn interval(number: u64) -> Part {
    let mut part = Part::new(number);
    for step in 0..2000 {
        let time = Duration::from_micros(10).mul_f64(1.008_f64.powi(step));
        part.latency.record(time);
        part.send_lag.record(time / 10);
    }
    part.completed = 2000;
    part
}

#[test]
fn a_timeline_does_not_grow_with_the_intervals_that_it_has_seen() {
    let _alone = alone();
    let second = Duration::from_secs(1);
    let spares = Spares::new(1, second);
    let mut timeline = Timeline::new(1, second, MOST_INTERVALS, MOST_INTERVALS, spares);
    let mut roll = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| drop(timeline.add(interval(number))));
        (LIVE.load(Ordering::SeqCst), resident())
    };
    let (held, resident) = roll(0..100);
    let (held_later, resident_later) = roll(100..5000);
    // The limit includes the memory that the test harness allocates to start another test: less than four bytes per
    // interval.
    let grown = held_later.saturating_sub(held);
    assert!(grown < 16 << 10, "{grown} bytes held");
    // The histograms of an interval are allocated and freed; the allocator may keep several copies.
    let grown = resident_later.saturating_sub(resident);
    assert!(grown < 1 << 20, "{grown} bytes more");
    let intervals = timeline.finish(Duration::from_secs(5000));
    assert!(intervals.len() <= MOST_INTERVALS);
    assert_eq!(
        intervals.iter().map(|i| i.completed).sum::<u64>(),
        5000 * 2000
    );
}

#[test]
fn a_load_does_not_grow_with_its_intervals() {
    let _alone = alone();
    let server = Server::start();
    let rate = Profile::constant(2000.0).unwrap();
    let users = Users::Open {
        arrivals: Arrivals::constant(rate),
        connections: 8,
    };
    let mut options = options(&server, users, "h1.1");
    // As many intervals as in twenty minutes: more than a timeline stores.
    options.interval = Duration::from_millis(10);
    options.limit = Limit::Time(Duration::from_secs(12));
    let mut course = Vec::with_capacity(2 * MOST_INTERVALS);
    let result = run(options, Clock::start(), &|| false, &mut |_| {
        course.push(LIVE.load(Ordering::SeqCst));
        // The thread that combines intervals pauses, so that intervals queue up.
        if course.len() == 500 {
            std::thread::sleep(Duration::from_millis(300));
        }
    })
    .unwrap();
    assert_eq!(result.measured.counts.planned, 24_000);
    assert!(course.len() > MOST_INTERVALS, "{}", course.len());
    // The queued intervals are freed later, so the minimum of the allocated memory counts.
    let least = |part: &[i64]| *part.iter().min().unwrap();
    // A thirtieth of the run covers everything that is allocated at first use.
    let (first, last) = (
        least(&course[40..140]),
        least(&course[course.len() - 100..]),
    );
    eprintln!("allocated bytes: {first}, then {last}");
    assert!(last - first < 16 << 10, "{} bytes more", last - first);
}
