//! Memory of an idle connection over TLS. The server is a separate process, so that its memory does not count.

use std::io::BufReader;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathometer_load::{Limit, Options, Users, run};
use fathometer_sys::Clock;
use fathometer_tls::{ClientOptions, ClientSettings, Verification};
use fathometer_workload::arrivals::Arrivals;
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::{Choice, PageId, Pages, Plan, Sessions, Target, TargetId};

use crate::LIVE;
use crate::support::alone::alone;
use crate::support::serving;

/// Number of files of a page, and of simultaneous HTTP/2 streams.
const MEMBERS: u32 = 60;

struct Server {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), [b'a'; 3000]).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fathometer"))
            .arg("serve")
            .arg(folder.path())
            .args(["--tls", "--listen", "127.0.0.1:0", "--threads", "1"])
            .args(["--keep-alive", "30m"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        Server {
            address: serving::address(&mut said),
            child,
            _folder: folder,
        }
    }

    fn options(&self, policy: &str, alpn: &[u8], plan: Plan) -> Options {
        let now = Clock::start().realtime_of(fathometer_model::Instant::ZERO);
        let mut tls = ClientOptions::new(Verification::Off, now);
        tls.alpn = vec![alpn.to_vec()];
        tls.resumption = None;
        let patience = Duration::from_secs(300);
        Options {
            policy: policy.parse().unwrap(),
            tls: Some(ClientSettings::new(tls).unwrap()),
            interval: Duration::from_millis(100),
            limit: Limit::Time(patience),
            timeout: patience,
            connect_timeout: patience,
            ..Options::new(self.address, "localhost", Arc::new(plan))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a load until `wanted` accepts the allocated memory after `exchanges` exchanges, or until a long time limit.
/// Returns the allocated memory after the last of these exchanges, and at the end.
fn held(options: Options, exchanges: u64, wanted: impl Fn(i64, i64) -> bool) -> (i64, i64) {
    let before = LIVE.load(Ordering::SeqCst);
    let (mut first, mut last) = (None, 0);
    let through = AtomicBool::new(false);
    let result = run(
        options,
        Clock::start(),
        &|| through.load(Ordering::SeqCst),
        &mut |live| {
            if live.so_far.completed == exchanges {
                last = LIVE.load(Ordering::SeqCst) - before;
                let first = *first.get_or_insert(last);
                through.fetch_or(wanted(first, last), Ordering::SeqCst);
            }
        },
    )
    .unwrap();
    assert_eq!(result.measured.counts.failed(), 0);
    (first.expect("all are answered"), last)
}

/// Memory for each user that has fetched a page and pauses.
#[test]
fn a_user_of_http2_over_tls_that_pauses_is_small() {
    let _alone = alone();
    let server = Server::start();
    let held = |users: u32| {
        let mut pages = Pages::single(1);
        let members: Vec<TargetId> = (0..MEMBERS).map(|_| TargetId(0)).collect();
        let page = pages.push(&members);
        let plan = Plan {
            pages,
            choice: Choice::Sequence([page].into()),
            sessions: Sessions {
                pages: None,
                off: Some(Law::Fixed(3600.0)),
            },
            ..Plan::single(Target::get("/a", None))
        };
        let options = Options {
            users: Users::Closed {
                users,
                start_interval: Duration::from_millis(1),
                steps: Vec::new(),
            },
            ..server.options("h2", b"h2", plan)
        };
        held(options, u64::from(users * MEMBERS), |_, _| true).0
    };
    // Memory that does not depend on the number of users is in both figures.
    let (few, many) = (held(50), held(250));
    let for_each = (many - few) / 200;
    eprintln!("{for_each} bytes for each user");
    assert!(for_each < 10_500, "{for_each} bytes for each user");
}

/// Connections of an open loop belong to no user: after an idle time they free their buffers.
#[test]
fn a_connection_that_has_become_idle_gives_its_buffers_back() {
    const CONNECTIONS: usize = 100;
    let _alone = alone();
    let server = Server::start();
    // All arrivals come at once, so that each needs a connection; the next arrival is after the end of the test.
    let mut times = vec![Duration::ZERO; CONNECTIONS];
    times.push(Duration::from_secs(3600));
    let plan = Plan {
        choice: Choice::Sequence([PageId(0)].into()),
        ..Plan::single(Target::get("/a", None))
    };
    let options = Options {
        users: Users::Open {
            arrivals: Arrivals::recorded(times.into(), 1.0).unwrap(),
            connections: CONNECTIONS as u32,
        },
        ..server.options("h1.1-tls", b"http/1.1", plan)
    };
    let wanted = |first: i64, last: i64| first - last >= 500 * CONNECTIONS as i64;
    let (first, last) = held(options, CONNECTIONS as u64, wanted);
    eprintln!("{first} bytes allocated, then {last} bytes");
    assert!(
        wanted(first, last),
        "{first} bytes allocated, then {last} bytes"
    );
}
