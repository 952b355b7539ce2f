//! Packages and archives as `fathometer serve` sends them, fetched by curl and unpacked by independent
//! programs: the reader in Python that was written from the specification, and the system's tar and unzip.
//!
//! Needs curl, python3, tar and unzip. Servers are children on loopback, at ports that the kernel chooses, and
//! end with their test.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

mod turns;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, IoSlice, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fathometer_http::h1::server::{Connection, ServerConfig};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Format, Formats, Making, Packages};
use fathometer_http::origin::store::Work;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{Content, Storage, origin_of};
use fathometer_model::Seed;
use fathometer_origin::folder::Bounds;
use fathometer_package::have::{Keys, key};
use fathometer_package::{Decoder, Event, Limits, Version};
use fathometer_sys::Clock;
use fathometer_workload::microscape;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::ports::free_address;
use crate::support::serving;

const PACKAGE: &str =
    "Accept: application/vnd.fathometer.object-package;version=2, text/html;q=0.5";
const VERSION_ONE: &str = "Accept: application/vnd.fathometer.object-package;version=1";
const READER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../package/tests/vectors/reader.py"
);

const PAGE: &str = "<link rel=stylesheet href=s.css><img src=big.png><img src='a%20b.gif'>";
const FILES: [&str; 4] = ["index.html", "s.css", "big.png", "a%20b.gif"];

/// A server that is killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    scheme: &'static str,
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fathometer"))
            .arg("serve")
            .arg(folder)
            .args(["--listen", "127.0.0.1:0", "--threads", "2"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        Server {
            address: serving::address(&mut stdout),
            child,
            scheme: match arguments.contains(&"--tls") {
                true => "https",
                false => "http",
            },
            _stdout: stdout,
        }
    }

    /// Runs curl with these options; returns the response.
    fn curl(&self, path: &str, options: &[&str]) -> Response {
        let heads = tempfile::NamedTempFile::new().unwrap();
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--insecure",
                "--max-time",
                "240",
            ])
            .arg("--dump-header")
            .arg(heads.path())
            .args(options)
            .arg(format!("{}://{}{path}", self.scheme, self.address))
            .output()
            .expect("curl is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path} {options:?}: {said}");
        let head = fs::read_to_string(heads.path()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        Response {
            status: status.parse().unwrap(),
            fields: lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
            content: output.stdout,
        }
    }

    fn package(&self, path: &str) -> Response {
        self.curl(path, &["--header", PACKAGE])
    }

    /// Reads the server's peak resident memory so far, in bytes.
    fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kibibytes = line
            .and_then(|line| line.split_whitespace().nth(1))
            .unwrap();
        kibibytes.parse::<u64>().unwrap() * 1024
    }

    /// Stops the server as an operator does; returns its stderr.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let stderr = self.child.stderr.take().unwrap();
        let said = std::io::read_to_string(stderr).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Response {
    status: u16,
    fields: BTreeMap<String, String>,
    content: Vec<u8>,
}

impl Response {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// A complete file: one line of the reader's output.
#[derive(Debug)]
struct Read {
    name: String,
    flags: String,
    coding: String,
    etag: String,
    sha256: String,
}

/// Returns the files of a package, as the reader in Python reports them.
fn read(package: &[u8]) -> Vec<Read> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("package.objp");
    fs::write(&path, package).unwrap();
    let output = Command::new("python3").arg(READER).arg(&path).output();
    let output = output.expect("python3 is installed");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().any(|line| line.ends_with("outcome\tcomplete")),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter_map(|fields| {
            let file = fields.iter().position(|field| *field == "file")?;
            let fields = &fields[file + 1..];
            Some(Read {
                name: fields[0].to_owned(),
                flags: fields[3].to_owned(),
                coding: fields[5].to_owned(),
                etag: fields[7].to_owned(),
                sha256: fields[9].to_owned(),
            })
        })
        .collect()
}

fn names(files: &[Read]) -> Vec<&str> {
    files.iter().map(|file| &file.name[..]).collect()
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split(' ').next().unwrap().to_owned()
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..bytes)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// Creates a page with a style sheet, an image served from its descriptor, an image served from memory, and a folder of
/// files.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("set")).unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
        file.set_modified(modified).unwrap();
    };
    write("index.html", PAGE.as_bytes());
    write("s.css", b"p {}");
    write("big.png", &random(300_000, 1));
    write("a b.gif", &random(3_000, 2));
    for n in 0..20 {
        let content = random(20_000 * n, n as u64);
        write(&format!("set/{n:02}.bin"), &content);
    }
    leave_alone();
    folder
}

/// Waits until the large files have strong entity tags. Before that, two responses for one file may differ.
fn leave_alone() {
    std::thread::sleep(Duration::from_millis(2_100));
}

fn assert_has_the_files_of(folder: &Path, files: &[Read]) {
    for file in files {
        let path = folder.join(file.name.replace("%20", " "));
        assert_eq!(file.sha256, sha256(&path), "{}", file.name);
    }
}

const SPOKEN: [(&[&str], &[&str]); 4] = [
    (&[], &["--http1.1"]),
    (&[], &["--http2-prior-knowledge"]),
    (&["--tls"], &["--http1.1"]),
    (&["--tls"], &["--http2"]),
];

#[test]
fn curl_gets_the_page_or_its_package_by_every_version_of_http() {
    let folder = folder();
    for when in ["made", "on-the-fly"] {
        for (speaks, asks) in SPOKEN {
            let server = Server::start(folder.path(), &[&["--packages", when], speaks].concat());
            let page = server.curl("/", asks);
            assert_eq!(page.content, PAGE.as_bytes());
            assert_eq!(page.field("vary"), Some("Accept"));
            for version in [PACKAGE, VERSION_ONE] {
                let options = [asks, &["--header", version]].concat();
                let package = server.curl("/", &options);
                assert_eq!(package.status, 200);
                let length = package.content.len().to_string();
                assert_eq!(package.field("content-length"), Some(&length[..]));
                assert_eq!(package.field("content-location"), Some("/index.html"));
                let files = read(&package.content);
                assert_eq!(names(&files), FILES, "{when} {asks:?}");
                assert_has_the_files_of(folder.path(), &files);
                let again = server.curl("/index.html", &options);
                assert_eq!(again.content, package.content);
                assert_eq!(again.field("content-location"), None);
            }
            let flags: Vec<String> = read(&server.package("/").content)
                .into_iter()
                .map(|file| file.flags)
                .collect();
            assert_eq!(flags, ["c", "c", "-", "-"]);
            let said = server.end();
            assert!(said.contains("5 packages and archives were sent"), "{said}");
        }
    }
}

#[test]
fn tar_and_unzip_read_the_archives() {
    let folder = folder();
    for when in ["made", "on-the-fly"] {
        let arguments = ["--packages", when, "--package-folders"];
        let server = Server::start(folder.path(), &arguments);
        for (accept, program, options) in [
            ("Accept: application/x-tar", "tar", &["-xf"][..]),
            ("Accept: application/zip", "unzip", &["-q"]),
        ] {
            for (path, count) in [("/", 4), ("/set/", 20)] {
                let archive = server.curl(path, &["--header", accept]);
                assert_eq!(archive.status, 200);
                let out = tempfile::tempdir().unwrap();
                fs::write(out.path().join("archive"), &archive.content).unwrap();
                let status = Command::new(program)
                    .args(options)
                    .arg("archive")
                    .current_dir(out.path())
                    .status()
                    .expect("tar and unzip are installed");
                assert!(status.success());
                fs::remove_file(out.path().join("archive")).unwrap();
                let whole = Command::new("find")
                    .args([".", "-type", "f", "-printf", "%P\n"])
                    .current_dir(out.path())
                    .output()
                    .unwrap();
                let listed = String::from_utf8(whole.stdout).unwrap();
                assert_eq!(listed.lines().count(), count, "{listed}");
                for name in listed.lines() {
                    // The archive has the names of the requests; the unpacking program may decode %20.
                    let original = folder.path().join(name.replace("%20", " "));
                    assert_eq!(
                        fs::read(out.path().join(name)).unwrap(),
                        fs::read(original).unwrap(),
                        "{name}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_folder_is_a_package_only_where_that_was_asked_for() {
    let folder = folder();
    let without = Server::start(folder.path(), &["--packages", "made"]);
    assert_eq!(without.package("/set/").status, 404);
    let with = Server::start(folder.path(), &["--packages", "made", "--package-folders"]);
    assert_eq!(with.curl("/set/", &[]).status, 404);
    let package = with.package("/set/");
    let files = read(&package.content);
    assert_eq!(files.len(), 20);
    assert_eq!(files[7].name, "set/07.bin");
    assert_has_the_files_of(folder.path(), &files);
    assert_eq!(with.package("/../set/").content, package.content);
    for path in ["/set//", "/none/", "/set/00.bin/"] {
        assert_eq!(with.package(path).status, 404, "{path}");
    }
}

#[test]
fn a_plan_says_what_goes_where_and_shared_files_go_once() {
    let folder = folder();
    fs::write(folder.path().join("next.html"), "<p>").unwrap();
    let plan = folder.path().join("plan");
    fs::write(
        &plan,
        "/index.html /big.png /s.css\n/next.html /big.png /a%20b.gif /missing.png\n/set/ /set/03.bin /set/01.bin\n",
    )
    .unwrap();
    let plan = ["--package-plan", plan.to_str().unwrap()];
    for (shared, next) in [
        ("repeated", &["next.html", "big.png", "a%20b.gif"][..]),
        ("once", &["next.html", "a%20b.gif"]),
    ] {
        let options = ["--packages", "made", "--package-shared", shared];
        let server = Server::start(folder.path(), &[&options[..], &plan].concat());
        let files = read(&server.package("/").content);
        assert_eq!(names(&files), ["index.html", "s.css", "big.png"]);
        assert_eq!(names(&read(&server.package("/next.html").content)), next);
        let files = read(&server.package("/set/").content);
        assert_eq!(names(&files), ["set/03.bin", "set/01.bin"]);
    }
}

#[test]
fn a_package_is_cached_resumed_and_rebuilt_when_a_file_changes() {
    let folder = folder();
    for when in ["made", "on-the-fly"] {
        let server = Server::start(folder.path(), &["--packages", when]);
        let whole = server.package("/");
        let etag = whole.field("etag").unwrap().to_owned();
        let matches = format!("If-None-Match: {etag}");
        let current = server.curl("/", &["--header", PACKAGE, "--header", &matches]);
        assert_eq!(current.status, 304);
        assert!(current.content.is_empty());
        assert_eq!(server.curl("/", &["--header", &matches]).status, 200);

        let half = whole.content.len() / 2;
        let range = format!("{half}-");
        let rest = server.curl("/", &["--header", PACKAGE, "--range", &range]);
        assert_eq!(rest.status, 206);
        assert_eq!(rest.content, &whole.content[half..]);
        let head = server.curl("/", &["--header", PACKAGE, "--head"]);
        assert_eq!(head.field("etag"), Some(&etag[..]));
        assert_eq!(head.field("content-length"), whole.field("content-length"));

        let path = folder.path().join("s.css");
        fs::write(&path, format!("p {{ content: {when} }}")).unwrap();
        let until = Instant::now() + Duration::from_secs(240);
        let changed = loop {
            let package = server.package("/");
            if package.field("etag") != Some(&etag[..]) {
                break package;
            }
            assert!(Instant::now() < until, "the change is not detected");
            std::thread::sleep(Duration::from_millis(100));
        };
        let files = read(&changed.content);
        assert_eq!(names(&files), FILES);
        assert_has_the_files_of(folder.path(), &files);
    }
}

#[test]
fn a_delta_has_what_the_client_lacks() {
    let folder = folder();
    for when in ["made", "on-the-fly"] {
        let server = Server::start(folder.path(), &["--packages", when]);
        let whole = read(&server.package("/").content);
        let etag_of = |name: &str| {
            let alone = server.curl(&format!("/{name}"), &[]);
            alone.field("etag").unwrap().to_owned()
        };
        // A file has the same metadata in a package and in a response with only this file.
        assert!(whole.iter().all(|file| file.etag == etag_of(&file.name)));
        let keys: Keys = ["index.html", "big.png"]
            .iter()
            .map(|name| key(name, &etag_of(name)))
            .collect();
        let have = format!("Package-Have: {keys}");
        let delta = server.curl("/", &["--header", PACKAGE, "--header", &have]);
        assert!(delta.content.len() < 5_000);
        assert_eq!(
            delta
                .field("vary")
                .map(|vary| vary.contains("Package-Have")),
            Some(true)
        );
        let files = read(&delta.content);
        let flags: Vec<(&str, &str)> = files
            .iter()
            .map(|file| (&file.name[..], &file.flags[..]))
            .collect();
        let expected = [
            ("index.html", "ck"),
            ("s.css", "c"),
            ("big.png", "k"),
            ("a%20b.gif", "-"),
        ];
        assert_eq!(flags, expected);
    }
}

#[test]
fn files_are_coded_in_what_is_composed_for_the_request() {
    let folder = folder();
    let path = folder.path().join("s.css.gz");
    let gzipped = Command::new("gzip")
        .args(["-c"])
        .arg(folder.path().join("s.css"))
        .output();
    fs::write(&path, gzipped.unwrap().stdout).unwrap();
    let server = Server::start(folder.path(), &["--packages", "on-the-fly"]);
    let coded = server.curl(
        "/",
        &["--header", PACKAGE, "--header", "Accept-Encoding: gzip"],
    );
    let style = &read(&coded.content)[1];
    assert_eq!((&style.name[..], &style.coding[..]), ("s.css", "gzip"));
    assert_eq!(style.sha256, sha256(&path));
    assert_eq!(read(&server.package("/").content)[1].coding, "-");
}

#[test]
fn memory_does_not_grow_with_what_is_packaged() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..12 {
        fs::write(
            folder.path().join(format!("{n:02}.bin")),
            random(8 << 20, n),
        )
        .unwrap();
    }
    for when in ["made", "on-the-fly"] {
        let arguments = [
            "--packages",
            when,
            "--package-folders",
            "--package-formats",
            "2,1,tar",
        ];
        let server = Server::start(folder.path(), &arguments);
        for accept in [PACKAGE, VERSION_ONE, "Accept: application/x-tar"] {
            let response = server.curl("/", &["--header", accept]);
            assert_eq!(response.status, 200);
            assert!(response.content.len() > 12 * (8 << 20));
        }
        let peak = server.peak_memory();
        assert!(peak < 48 << 20, "{when}: {peak}");
    }
}

/// In the paper, the saving of the server is that it opens one file instead of all files.
#[test]
fn a_package_that_was_made_from_a_folder_is_one_open() {
    let definition = Definition::load("embedded").unwrap();
    let site = Arc::new(microscape::site(Seed(1997), microscape::Variant::LowerCase));
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fathometer_files::site_folder::write(&site, folders[0].path()).unwrap();
    let packages = Packages {
        making: Making::Made,
        formats: Formats::only(Format::Package(Version::Two)),
        plan: Plan::of_site(&site),
        fresh: Duration::from_secs(3600),
        ..Packages::default()
    };
    let content = Content {
        site: &site,
        folder: folders[0].path(),
        push: &Plan::default(),
        early_hints: &Plan::default(),
        packages: &packages,
        storage: Storage::Disk {
            bounds: Bounds {
                bytes: 0,
                descriptors: 0,
            },
            packages_in: Some(folders[1].path()),
        },
    };
    let embedded = definition.embedded.as_ref().unwrap();
    let origin = origin_of("embedded", embedded, content, Clock::start()).unwrap();
    assert_eq!(origin.take_work(), Work::default());
    let kept: Vec<_> = std::fs::read_dir(folders[1].path()).unwrap().collect();
    let size = kept[0].as_ref().unwrap().metadata().unwrap().len();
    assert_eq!(kept.len(), 1);

    let config = Arc::new(ServerConfig::default());
    let mut connection =
        Connection::new(Arc::clone(&origin), config, fathometer_model::Instant::ZERO);
    let base = &site.file(site.pages[0].base).path;
    let request = format!(
        "GET {base} HTTP/1.1\r\nHost: h\r\nAccept: {}\r\n\r\n",
        Version::Two.content_type()
    );
    connection.handle_data(request.as_bytes(), fathometer_model::Instant::ZERO);
    let mut slices = [IoSlice::new(&[]); 8];
    let filled = connection.transmit(&mut slices);
    let head = slices[..filled].iter().map(|slice| slice.len()).sum();
    connection.transmitted(head, fathometer_model::Instant::ZERO);
    assert_eq!(connection.transmit_file().unwrap().length, size);
    let work = Work { opens: 1, reads: 0 };
    assert_eq!(origin.take_work(), work);
    assert_eq!(origin.take_packages(), 1);
}

/// To a server without support for packages, a package is an ordinary file.
#[test]
fn nginx_sends_a_package_that_lies_in_a_folder() {
    let folder = folder();
    let server = Server::start(folder.path(), &["--packages", "made"]);
    let package = server.package("/").content;
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("page.objp"), &package).unwrap();
    let port = free_address().port();
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path().display();
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
         events {{}}\n\
         http {{\n\
           access_log off;\n\
           client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3;\n\
           uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;\n\
           types {{ \"application/vnd.fathometer.object-package;version=2\" objp; }}\n\
           server {{ listen 127.0.0.1:{port}; root {}; }}\n\
         }}\n",
        root.path().display()
    );
    let path = scratch.path().join("nginx.conf");
    fs::write(&path, config).unwrap();
    let nginx = Command::new("nginx")
        .env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
        .arg("-c")
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx is installed");
    let nginx = Ended(nginx);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let until = Instant::now() + Duration::from_secs(240);
    while std::net::TcpStream::connect(address).is_err() {
        assert!(Instant::now() < until, "nginx does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "240",
            "--write-out",
            "%{stderr}%{content_type}",
        ])
        .arg(format!("http://{address}/page.objp"))
        .output()
        .unwrap();
    drop(nginx);
    assert_eq!(output.stdout, package);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "application/vnd.fathometer.object-package;version=2"
    );
    assert_eq!(names(&read(&output.stdout)), FILES);
}

/// A process that is killed when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two parts of content an hour apart, so the second never arrives in a test.
const HALF: &str = "/feed.txt,parts=2,size=1000,every=1h";

/// The output of curl while the response is still being generated.
struct Streaming {
    child: Child,
    stdout: ChildStdout,
}

impl Streaming {
    fn start(server: &Server, path: &str, options: &[&str]) -> Streaming {
        let mut child = Command::new("curl")
            .args(["--silent", "--insecure", "--no-buffer"])
            .args(options)
            .arg(format!("{}://{}{path}", server.scheme, server.address))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("curl is installed");
        let stdout = child.stdout.take().unwrap();
        Streaming { child, stdout }
    }

    /// Reads the next bytes, which arrive before the response has ended.
    fn next(&mut self) -> Vec<u8> {
        let mut room = vec![0; 64 * 1024];
        let read = self.stdout.read(&mut room).unwrap();
        assert!(read > 0, "the response has ended");
        room.truncate(read);
        room
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn content_that_is_made_leaves_part_by_part() {
    let folder = folder();
    for (speaks, asks) in SPOKEN {
        let server = Server::start(
            folder.path(),
            &[
                &[
                    "--dynamic",
                    HALF,
                    "--dynamic",
                    "/set/07.bin,parts=5,every=1ms",
                ],
                speaks,
            ]
            .concat(),
        );
        let mut streaming = Streaming::start(&server, "/feed.txt", asks);
        let mut half = Vec::new();
        while half.len() < 1000 {
            half.extend(streaming.next());
        }
        assert!(half.starts_with(b"part 1 of 2\n") && half.len() == 1000);
        drop(streaming);
        let head = server.curl("/feed.txt", &[asks, &["--head"]].concat());
        assert_eq!((head.status, head.field("content-length")), (200, None));
        // The content of a file is forwarded unchanged.
        let file = server.curl("/set/07.bin", asks);
        assert_eq!(file.field("content-length"), None, "{asks:?}");
        assert_eq!(file.field("etag"), None, "{asks:?}");
        let chunked = asks.contains(&"--http1.1").then_some("chunked");
        assert_eq!(file.field("transfer-encoding"), chunked, "{asks:?}");
        let whole = fs::read(folder.path().join("set/07.bin")).unwrap();
        assert!(file.content == whole, "{asks:?}");
    }
    let server = Server::start(folder.path(), &["--dynamic", "/set/07.bin,every=1ms"]);
    let old = server.curl("/set/07.bin", &["--http1.0"]);
    assert_eq!(old.field("transfer-encoding"), None);
    assert!(old.content == fs::read(folder.path().join("set/07.bin")).unwrap());
}

#[test]
fn a_package_has_files_before_what_is_still_being_made() {
    let folder = folder();
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        plan.path(),
        "/index.html /feed.txt /s.css /big.png /a%20b.gif\n",
    )
    .unwrap();
    let plan = plan.path().to_str().unwrap();
    let packages = ["--packages", "on-the-fly", "--package-plan", plan];
    for (speaks, asks) in SPOKEN {
        let dynamic = ["--dynamic", HALF];
        let server = Server::start(folder.path(), &[&packages[..], &dynamic, speaks].concat());
        let options = [asks, &["--header", PACKAGE]].concat();
        let mut streaming = Streaming::start(&server, "/", &options);
        let mut decoder = Decoder::new(Limits::default());
        let (mut whole, mut part) = (Vec::new(), 0);
        while part < 1000 {
            let bytes = streaming.next();
            let mut rest = &bytes[..];
            while let Some(event) = decoder.poll(&mut rest).unwrap() {
                match event {
                    Event::End { .. } => whole.push(decoder.entry().name.clone()),
                    Event::Data { content, .. } if whole.len() == FILES.len() => {
                        part += content.len();
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(whole, FILES, "{asks:?}");
        assert_eq!(decoder.entry().name, "feed.txt");
        assert_eq!(decoder.entry().size, None);
        drop(streaming);
        drop(server);

        let short = ["--dynamic", "/feed.txt,parts=4,size=700,every=5ms"];
        let server = Server::start(folder.path(), &[&packages[..], &short, speaks].concat());
        let package = server.curl("/", &options);
        assert_eq!(package.field("content-length"), None, "{asks:?}");
        assert_eq!(package.field("etag"), None, "{asks:?}");
        let files = read(&package.content);
        let all = [&FILES[..], &["feed.txt"]].concat();
        assert_eq!(names(&files), all, "{asks:?}");
        assert_has_the_files_of(folder.path(), &files[..FILES.len()]);
        let feed = server.curl("/feed.txt", asks).content;
        let path = folder.path().join("feed.copy");
        fs::write(&path, feed).unwrap();
        assert_eq!(files[FILES.len()].sha256, sha256(&path));
        fs::remove_file(&path).unwrap();
        // A version that needs sizes omits the file of unknown size.
        let options = [asks, &["--header", VERSION_ONE]].concat();
        assert_eq!(names(&read(&server.curl("/", &options).content)), FILES);
    }
}
