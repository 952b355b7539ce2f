//! Interruptions and full disks.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use super::place::{Place, noise, tree};
use crate::small_disk::SmallDisk;
use crate::support::waiting::wait_until;

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn an_interrupted_unpack_command_keeps_complete_files() {
    let place = Place::new();
    place.write("in/a", "first");
    place.write("in/b", noise(500_000, 1));
    let package = place.run(&["pack", "in"]).done().out;
    for ending in [Signal::INT, Signal::TERM] {
        let out = format!("out-{}", ending.as_raw());
        let mut unpack = place.start(&["unpack", "-", &out]);
        let mut pipe = unpack.stdin.take().unwrap();
        pipe.write_all(&package[..300_000]).unwrap();
        wait_until("the second file has begun", || {
            fs::read_dir(place.path(&out)).is_ok_and(|entries| {
                entries.flatten().any(|entry| {
                    entry.file_name() != "a"
                        && entry.metadata().is_ok_and(|data| data.len() > 200_000)
                })
            })
        });
        signal(&unpack, ending);
        assert_eq!(unpack.wait().unwrap().code(), Some(1));
        let message = said(&mut unpack);
        assert!(
            message.contains("interrupted")
                && message.contains("complete before the error: 1 file,"),
            "{message}"
        );
        let names: Vec<PathBuf> = place.tree(&out).into_keys().collect();
        assert_eq!(names, [Path::new("a")]);
        drop(pipe);
    }
}

#[test]
fn an_interrupted_pack_command_leaves_no_package() {
    let place = Place::new();
    // A sparse file that takes minutes to pack.
    let large = fs::File::create(place.write("in/a", "")).unwrap();
    large.set_len(1 << 40).unwrap();
    let mut pack = place.start(&["pack", "in", "-o", "x.objp"]);
    wait_until("the package has begun", || {
        let entries = fs::read_dir(place.path("")).unwrap().flatten();
        entries
            .filter(|entry| entry.metadata().is_ok_and(|data| data.is_file()))
            .count()
            == 1
    });
    signal(&pack, Signal::INT);
    assert_eq!(pack.wait().unwrap().code(), Some(1));
    assert!(said(&mut pack).contains("interrupted"));
    large.set_len(0).unwrap();
    let names: Vec<PathBuf> = place.tree("").into_keys().collect();
    assert_eq!(names, [Path::new("in/a")]);
}

#[test]
fn a_closed_pipe_is_reported() {
    let place = Place::new();
    place.write("in/a", noise(2_000_000, 1));
    let mut pack = place.start(&["pack", "in"]);
    drop(pack.stdout.take());
    assert_eq!(pack.wait().unwrap().code(), Some(1));
    assert!(said(&mut pack).contains("closed it"));
}

#[test]
fn a_full_disk_keeps_complete_files() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.path("disk"), "1m") else {
        return;
    };
    for name in ["a", "b", "c"] {
        place.write(format!("in/{name}"), noise(400_000, 1));
    }
    place.run(&["pack", "in", "-o", "x.objp"]).done();
    let full = "No space left on device";
    place.run(&["unpack", "x.objp", "disk/out"]).failed(&[
        "disk/out/c",
        full,
        "complete before the error: 2 files",
    ]);
    let names: Vec<PathBuf> = tree(&disk.0).into_keys().collect();
    assert_eq!(names, [Path::new("out/a"), Path::new("out/b")]);
    fs::remove_dir_all(disk.0.join("out")).unwrap();
    place
        .run(&["pack", "in", "-o", "disk/y.objp"])
        .failed(&["disk/y.objp", full]);
    assert!(tree(&disk.0).is_empty());
}
