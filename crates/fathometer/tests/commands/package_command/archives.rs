//! tar and Python read our tar and zip archives, and we read theirs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fathometer_model::Body;
use fathometer_package::archive::{Event, Member, tar, zip};

use super::place::{Place, noise};

fn files() -> BTreeMap<String, Vec<u8>> {
    let long = format!("{}end.css", "a-folder-with-a-name/".repeat(12));
    let longer = "n".repeat(150);
    let files = [
        ("index.html", b"<p>".to_vec()),
        ("empty", vec![]),
        ("a b/\u{fc}.gif", noise(100_000, 1)),
        ("block", noise(1024, 2)),
        (&long[..], noise(777, 3)),
        (&longer[..], noise(10, 4)),
    ];
    files
        .map(|(name, content)| (name.to_owned(), content))
        .into()
}

fn with_members<T>(make: impl FnOnce(&[Member<'_>]) -> T) -> T {
    let files = files();
    let bodies: Vec<(&String, Body)> = files.iter().map(|(n, c)| (n, Body::from(&c[..]))).collect();
    let members: Vec<Member<'_>> = bodies
        .iter()
        .map(|(name, content)| Member {
            name,
            last_modified: 867_801_600,
            content,
        })
        .collect();
    make(&members)
}

fn run(place: &Place, program: &str, words: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command
        .args(words)
        .env("PYTHONWARNINGS", "ignore")
        .current_dir(place.path(""))
        .output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {message}");
    // The programs report defects of an archive on stderr.
    assert_eq!(message, "", "{program} {words:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn contents(place: &Place, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let tree = place.tree(folder).into_iter();
    tree.map(|(path, (content, _))| (path.to_str().unwrap().to_owned(), content))
        .collect()
}

#[test]
fn our_archives_are_read_by_others() {
    let place = Place::new();
    let mut archive = Vec::new();
    with_members(|members| tar::write(members.iter().copied(), &mut archive));
    place.write("x.tar", &archive);
    for folder in ["by-tar", "by-python"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    run(&place, "tar", &["-xf", "x.tar", "-C", "by-tar"]);
    assert_eq!(contents(&place, "by-tar"), files());
    run(
        &place,
        "python3",
        &["-m", "tarfile", "-e", "x.tar", "by-python"],
    );
    assert_eq!(contents(&place, "by-python"), files());

    let archive = with_members(|members| zip::write(members.iter().copied())).unwrap();
    place.write("x.zip", &archive);
    run(&place, "python3", &["-m", "zipfile", "-t", "x.zip"]);
    run(
        &place,
        "python3",
        &["-m", "zipfile", "-e", "x.zip", "from-zip"],
    );
    assert_eq!(contents(&place, "from-zip"), files());
}

#[test]
fn archives_of_others_are_read() {
    let place = Place::new();
    for (name, content) in files() {
        place.write(Path::new("in").join(name), content);
    }
    for format in ["gnu", "pax", "posix", "oldgnu"] {
        let option = format!("--format={format}");
        run(&place, "tar", &[&option, "-C", "in", "-cf", "x.tar", "."]);
        let archive = std::fs::read(place.path("x.tar")).unwrap();
        let mut reader = tar::Reader::new();
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        for piece in archive.chunks(1000) {
            let mut input = piece;
            while let Some(event) = reader.poll(&mut input).unwrap() {
                match event {
                    Event::Start { .. } => found.push((reader.entry().name.clone(), Vec::new())),
                    Event::Data { entry, content } => found[entry].1.extend_from_slice(content),
                    Event::End { .. } | Event::Finished => {}
                }
            }
        }
        reader.end_of_input().unwrap();
        assert_eq!(
            found.into_iter().collect::<BTreeMap<_, _>>(),
            files(),
            "{format}"
        );
    }
    for (method, argument) in [("ZIP_STORED", "0"), ("ZIP_DEFLATED", "8")] {
        let script = "import os,sys,zipfile\n\
            z=zipfile.ZipFile('x.zip','w',int(sys.argv[1]))\n\
            [z.write(os.path.join(d,f),os.path.relpath(os.path.join(d,f),'in')) for d,_,fs in os.walk('in') for f in fs]\n\
            z.close()";
        run(&place, "python3", &["-c", script, argument]);
        let read = zip::read_whole(&std::fs::read(place.path("x.zip")).unwrap()).unwrap();
        let read = read.into_iter().map(|file| (file.name, file.content));
        assert_eq!(read.collect::<BTreeMap<_, _>>(), files(), "{method}");
    }
}
