//! Tests with privileges and without privileges, and the report of `doctor` in both cases.

use std::process::Command;

use fathometer_sys::abilities;

use crate::lab;

#[test]
fn probing_reports_every_ability_and_keeps_the_namespace() {
    let namespaces = || {
        ["user", "net", "pid", "mnt"]
            .map(|kind| std::fs::read_link(format!("/proc/thread-self/ns/{kind}")).unwrap())
    };
    let before = namespaces();
    let abilities = abilities::probe();
    assert_eq!(namespaces(), before);
    let names: Vec<&str> = abilities.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "namespaces",
            "tun",
            "programs",
            "reno",
            "timers",
            "real-time"
        ]
    );
    if lab() {
        for ability in abilities.iter().filter(|ability| ability.required) {
            assert!(ability.state.is_ok(), "{ability:?}");
        }
    }
}

/// An ordinary user creates hosts in a user namespace, if the TUN driver may be opened.
#[test]
fn without_root_a_user_namespace_serves() {
    let root = std::fs::read_to_string("/proc/self/status")
        .unwrap()
        .contains("Uid:\t0\t0");
    if !lab() || !root {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("tun");
    // In a separate mount namespace, /dev/net/tun becomes a node that every user may open.
    let script = "mknod -m 666 \"$0\" c 10 200 && mount --bind \"$0\" /dev/net/tun && \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "--", "sh", "-c", script])
        .arg(&node)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "privileges::ordinary_user", "--nocapture"])
        .env("FATHOMETER_TEST_USER", "1")
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    for ability in ["namespaces", "tun", "programs", "reno"] {
        assert!(text.contains(&format!("{ability}: Ok")), "{text}{errors}");
    }
    assert!(text.contains("in a user namespace"), "{text}{errors}");
}

/// Not a test by itself: the program that the user of the test above runs.
#[test]
fn ordinary_user() {
    if std::env::var_os("FATHOMETER_TEST_USER").is_some() {
        for ability in abilities::probe() {
            println!("{}: {:?}", ability.name, ability.state);
        }
    }
}
