//! Our counts must equal the server's log, file by file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use fathometer_analysis::load::Summary;
use fathometer_analysis::load::summary::LoopSummary;
use fathometer_lab::server::{self, definition::Definition};

use super::support::{Origin, load, logged};
use crate::peers::support::Server;
use crate::support::programs::{FATHOMETER, run_well, tool};

const ASKED: u64 = 5000;

/// Loads a server with Almeida's workload A, for a fixed number of requests, with one connection for each of eight
/// users.
fn fetch(url: &str) -> Summary {
    let count = ASKED.to_string();
    let ended = load(
        url,
        &[
            "--workload",
            "almeida-a",
            "-n",
            &count,
            "-c",
            "8",
            "--targets",
            "--json",
        ],
    );
    let summary = ended.ended_with(0);
    let counts = &summary.measured.counts;
    assert_eq!((counts.planned, counts.completed), (ASKED, ASKED));
    assert_eq!((counts.wrong_size, counts.retried), (0, 0));
    assert_eq!(counts.statuses["200"], ASKED);
    summary
}

fn assert_same(summary: &Summary, logged: &[String]) {
    assert_eq!(logged.len() as u64, ASKED);
    let mut by_request: BTreeMap<&str, u64> = BTreeMap::new();
    for request in logged {
        *by_request.entry(request).or_default() += 1;
    }
    let targets = summary.targets.iter();
    let counted: BTreeMap<&str, u64> = targets
        .filter(|target| target.completed > 0)
        .map(|target| (target.target.as_str(), target.completed))
        .collect();
    assert_eq!(counted, by_request);
    assert!(counted.len() > 10, "{counted:?}");
}

#[test]
fn no_wake_up_is_delayed_unless_asked_for() {
    let origin = Origin::of("almeida-a", 1);
    let of = |more: &[&str]| {
        let arguments = ["--workload", "almeida-a", "-n", "5000", "-c", "64"];
        let arguments = [&arguments[..], &["--json"], more].concat();
        load(&origin.url(), &arguments).ended_with(0)
    };
    let usual = of(&[]);
    assert_eq!(usual.setup.wake_up_coalescing_ms, 0.0);
    assert_eq!(usual.setup.defaults["wake-up coalescing"], "off");
    for thread in &usual.generator.threads {
        assert_eq!(
            (thread.rested_share, thread.rest_latency_ratio),
            (0.0, None)
        );
    }
    let asked = of(&["--rest", "1ms"]);
    assert_eq!(asked.setup.wake_up_coalescing_ms, 1.0);
    assert!(!asked.setup.defaults.contains_key("wake-up coalescing"));
}

#[test]
fn an_open_loop_says_what_it_spent_on_being_in_time() {
    let origin = Origin::of("almeida-a", 1);
    let of = |more: &[&str]| {
        let arguments = ["--rate", "500", "-d", "500ms", "-c", "8", "--json"];
        let arguments = [&arguments[..], more].concat();
        let ended = load(&origin.url(), &arguments);
        assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
        ended.summary()
    };
    let usual = of(&[]);
    let threads = &usual.generator.threads;
    assert!(threads.iter().all(|t| t.wake_up_latency_ms.is_some()));
    let waited: f64 = threads.iter().map(|t| t.busy_wait_s).sum();
    assert!((usual.generator.busy_wait_s - waited).abs() < 1e-6);
    assert!(usual.setup.defaults.contains_key("busy-wait"));
    let never = of(&["--spin", "0s"]);
    assert_eq!(never.generator.busy_wait_s, 0.0);
    assert_eq!(never.generator.threads[0].wake_up_latency_ms, None);
}

#[test]
fn a_batch_arrives_at_once_and_each_of_its_requests_has_a_connection() {
    let origin = Origin::of("almeida-a", 1);
    let arguments = ["--rate", "400", "--batch", "80", "-n", "160", "--json"];
    let ended = load(&origin.url(), &arguments);
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
    let summary = ended.summary();
    let LoopSummary::Open {
        arrivals,
        connections,
        batch,
        ..
    } = &summary.setup.kind
    else {
        panic!("{:?}", summary.setup.kind);
    };
    assert_eq!(arrivals, "constant 400/s in batches of 80");
    assert_eq!((*connections, batch.map(u32::from)), (80, Some(80)));
    assert_eq!(summary.measured.counts.completed, 160);
    // No request waits for the connection of another request.
    assert_eq!(summary.measured.connections.established, 80);
}

#[test]
fn our_origin_logged_what_was_counted() {
    let origin = Origin::of("almeida-a", 1);
    let summary = fetch(&origin.url());
    assert_same(&summary, &origin.end());
}

#[test]
fn nginx_logged_what_was_counted() {
    foreign("nginx", &["nginx"], |config, log| {
        config.replace("access_log off;", &format!("access_log {log} combined;"))
    });
}

#[test]
fn apache_logged_what_was_counted() {
    foreign("httpd", &["apache2", "httpd"], |config, log| {
        let modules = config
            .lines()
            .find_map(|line| line.strip_prefix("LoadModule dir_module "))
            .map(|path| path.replace("mod_dir.so", "mod_log_config.so"))
            .unwrap();
        format!(
            "{config}\n<IfModule !log_config_module>\n\
             LoadModule log_config_module {modules}\n</IfModule>\n\
             CustomLog \"{log}\" \"%h %l %u %t \\\"%r\\\" %>s %b\"\n"
        )
    });
}

/// Compares our counts with the log of a third-party server. `logging` adds an access log to the configuration; its
/// arguments are the configuration and the path of the log.
fn foreign(name: &str, programs: &[&str], logging: impl Fn(&str, &str) -> String) {
    let definition = Definition::load(name).unwrap();
    let program = definition.program.as_ref().unwrap();
    let Some(installed) = server::find(program) else {
        // `tool` prints a message, or fails if tools are required.
        for program in programs {
            tool(program);
        }
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.path().join("site");
    run_well(
        Command::new(FATHOMETER)
            .args(["site", "almeida-a", "--seed", "1"])
            .arg(&root),
    );
    let log = folder.path().join("access.log");
    let mut server = Server::foreign(name, |address, runtime| {
        let command = server::command(
            &definition,
            program,
            &installed,
            address,
            &root,
            runtime,
            None,
        )
        .unwrap();
        let config = runtime.join("server.conf");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, logging(&text, log.to_str().unwrap())).unwrap();
        command
    });
    let summary = fetch(&server.url(""));
    server.stop().expect("the server exits on SIGTERM");
    assert_same(&summary, &logged(&log));
}
