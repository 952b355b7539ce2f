//! Tests with correct and broken PMI-1 launchers, over sockets.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use fathometer_sys::Clock;

use super::*;

/// The state that the processes of a job share.
struct Job {
    values: Mutex<BTreeMap<String, String>>,
    all: Barrier,
}

/// Runs the launcher's side of one process: answers until the connection is closed. Returns the requests.
fn launch(socket: UnixStream, job: &Job) -> Vec<String> {
    let mut answers = socket.try_clone().unwrap();
    let mut requests = Vec::new();
    for line in BufReader::new(socket).lines() {
        let line = line.unwrap();
        let value = |name: &str| {
            let mut pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(found, _)| *found == name);
            found.map(|(_, value)| value.to_owned()).unwrap()
        };
        let answer = match value("cmd").as_str() {
            "init" => "response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_maxes" => "maxes kvsname_max=256 keylen_max=64 vallen_max=1024".to_owned(),
            "get_my_kvsname" => "my_kvsname kvsname=kvs_1_0".to_owned(),
            "put" => {
                assert_eq!(value("kvsname"), "kvs_1_0");
                job.values
                    .lock()
                    .unwrap()
                    .insert(value("key"), value("value"));
                "put_result rc=0 msg=success".to_owned()
            }
            "barrier_in" => {
                job.all.wait();
                "barrier_out".to_owned()
            }
            "get" => match job.values.lock().unwrap().get(&value("key")) {
                Some(value) => format!("get_result rc=0 msg=success value={value}"),
                None => "get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            },
            "finalize" => "finalize_ack".to_owned(),
            other => panic!("{other}"),
        };
        requests.push(value("cmd"));
        // The answer is sent in two parts, because a real answer may arrive in parts.
        for piece in [&b"cmd="[..], format!("{answer}\n").as_bytes()] {
            answers.write_all(piece).unwrap();
        }
    }
    requests
}

fn wire(socket: UnixStream, time: Duration) -> DescriptorWire {
    let clock = Clock::start();
    DescriptorWire::new(socket.into(), clock, clock.now() + time)
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn all_ranks_of_a_job_find_the_place_that_rank_0_offers() {
    let job = Arc::new(Job {
        values: Mutex::default(),
        all: Barrier::new(3),
    });
    let ranks: Vec<_> = (0..3)
        .map(|rank| {
            let (own, launcher) = UnixStream::pair().unwrap();
            let job = Arc::clone(&job);
            let launcher = std::thread::spawn(move || launch(launcher, &job));
            let rank = std::thread::spawn(move || {
                let mut store = Pmi1::begin(wire(own, LONG)).unwrap();
                assert!(store.get("nothing").is_err());
                meet(&mut store, rank, &|| Ok("node1:20123".to_owned()))
            });
            (rank, launcher)
        })
        .collect();
    for (number, (rank, launcher)) in ranks.into_iter().enumerate() {
        assert_eq!(rank.join().unwrap(), Ok("node1:20123".to_owned()));
        let requests = launcher.join().unwrap();
        assert_eq!(requests.contains(&"put".to_owned()), number == 0);
        assert_eq!(requests.last().map(String::as_str), Some("finalize"));
    }
}

/// A launcher that sends fixed answers to any requests.
#[derive(Debug)]
struct Fixed(Vec<&'static str>);

impl Wire for Fixed {
    fn send(&mut self, _: &str) -> Result<(), PmiError> {
        Ok(())
    }

    fn receive(&mut self, _: &str) -> Result<String, PmiError> {
        Ok(self.0.remove(0).to_owned())
    }
}

const INIT: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
const MAXES: &str = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=20";
const NAME: &str = "cmd=my_kvsname kvsname=k";

#[test]
fn answers_that_are_no_answers_of_pmi_1_are_errors() {
    for broken in [
        vec![""],
        vec!["HTTP/1.1 400 Bad Request"],
        vec!["cmd=response-to-init;pmi-version=2;rc=0;"],
        vec!["cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"],
        vec!["cmd=response_to_init pmi_version=1 rc=-1"],
        vec![INIT, "cmd=maxes keylen_max=64 vallen_max=-1"],
        vec![INIT, "cmd=barrier_out"],
        vec![INIT, MAXES, "cmd=my_kvsname kvsname="],
    ] {
        let error = Pmi1::begin(Fixed(broken.clone())).unwrap_err();
        assert!(
            matches!(error, PmiError::Answer { .. }),
            "{broken:?}: {error}"
        );
    }
    let store = |more: &[&'static str]| {
        let answers = [&[INIT, MAXES, NAME], more].concat();
        Pmi1::begin(Fixed(answers)).unwrap()
    };
    for place in [
        "a-name-that-is-too-long:20123",
        "a b:1",
        "a=b:1",
        "ü:1",
        "a:1\ncmd=abort",
    ] {
        let error = meet(&mut store(&[]), 0, &|| Ok(place.to_owned())).unwrap_err();
        assert_eq!(error, PmiError::Value(place.to_owned()));
    }
    let refused = store(&["cmd=put_result rc=-1 msg=duplicate_key"]);
    let error = meet(&mut { refused }, 0, &|| Ok("a:1".to_owned())).unwrap_err();
    assert!(error.to_string().contains("duplicate_key"), "{error}");
    let error = meet(&mut store(&[]), 0, &|| Err("no port is free".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "no port is free");
}

#[test]
fn a_launcher_that_never_answers_is_given_up_at_the_deadline_and_one_that_ends_at_once() {
    let short = Duration::from_millis(50);
    // The barrier of a job whose other process never arrives.
    let (own, launcher) = UnixStream::pair().unwrap();
    let mut answers = launcher.try_clone().unwrap();
    for line in [INIT, MAXES, NAME] {
        writeln!(answers, "{line}").unwrap();
    }
    let mut store = Pmi1::begin(wire(own, short)).unwrap();
    let error = meet(&mut store, 1, &|| panic!("only rank 0 offers an address")).unwrap_err();
    assert!(
        error.to_string().contains("cmd=barrier_in in time"),
        "{error}"
    );
    drop((answers, launcher));

    let (own, mut launcher) = UnixStream::pair().unwrap();
    launcher.write_all(b"cmd=response_to").unwrap();
    drop(launcher);
    let error = Pmi1::begin(wire(own, LONG)).unwrap_err();
    assert!(matches!(error, PmiError::Ended(_)), "{error}");

    // The buffer for a line without a newline is limited.
    let (own, mut launcher) = UnixStream::pair().unwrap();
    launcher.write_all(&[b'x'; 2 * LONGEST_LINE]).unwrap();
    let error = Pmi1::begin(wire(own, LONG)).unwrap_err();
    assert!(matches!(error, PmiError::Answer { .. }), "{error}");
}
