//! A lab with a server in it, and a client that writes its requests directly.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fathometer_files::site_folder;
use fathometer_lab::hosts::{Host, Lab};
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::limited::{self, Limited};
use fathometer_lab::server::{self, Installed, PORT, ServerError, Throttle};
use fathometer_lab::wire::WireOptions;
use fathometer_model::{Bytes, File, Seed, Site};
use fathometer_path::Profile;
use fathometer_sys::cgroup::{CpuLimit, Group, Limits};
use fathometer_sys::{Namespace, TcpSettings, Tun};
use fathometer_workload::microscape;
use tempfile::TempDir;

/// Servers whose absence is a failure when tools are required.
pub const REQUIRED: [&str; 4] = ["embedded", "httpd", "httpd-prefork", "nginx"];

/// Time limit of a response: longer than any response takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The site on disk, readable by the server's own user.
pub struct Files {
    pub site: Arc<Site>,
    folder: TempDir,
}

impl Files {
    pub fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let site = Arc::new(microscape::site(Seed(1997), microscape::Variant::LowerCase));
        site_folder::write(&site, folder.path()).unwrap();
        Files { site, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A running server in a host with limits.
pub struct Place {
    pub name: &'static str,
    pub files: Files,
    pub lab: Lab,
    group: Group,
    server: Limited,
}

impl Place {
    /// Starts the server; `None`, with a message, if this machine cannot run it.
    pub fn start(name: &'static str, throttle: Throttle) -> Option<Place> {
        let definition = Definition::load(name).unwrap();
        let installed = installed(&definition)?;
        let (lab, group) = (lab(), group());
        let files = Files::new();
        let server = limited::start(
            &definition,
            installed.as_ref(),
            &lab.server,
            &group,
            files.folder(),
            throttle,
        )
        .unwrap();
        Some(Place {
            name,
            files,
            lab,
            group,
            server,
        })
    }

    /// The process IDs of the server.
    pub fn processes(&self) -> Vec<u32> {
        processes(&self.group)
    }

    pub fn connect(&self) -> TcpStream {
        self.connect_within(PATIENCE).unwrap()
    }

    pub fn connect_within(&self, time: Duration) -> std::io::Result<TcpStream> {
        connect(&self.lab, time)
    }

    /// Stops the server as a trial does, or kills it; asserts that nothing is left.
    pub fn end(self, kill: bool) {
        if kill {
            drop(self.server);
        } else {
            self.server.stop().unwrap();
        }
        assert_eq!(processes(&self.group), Vec::<u32>::new(), "{}", self.name);
        assert!(connect(&self.lab, PATIENCE).is_err(), "{}", self.name);
        let folders: Vec<PathBuf> = self.group.directories().map(Path::to_owned).collect();
        assert!(!folders.is_empty());
        drop(self.group);
        for folder in folders {
            assert!(!folder.exists(), "{}: {}", self.name, folder.display());
        }
        self.lab.stop();
    }
}

fn processes(group: &Group) -> Vec<u32> {
    let folder = group.directories().next().unwrap();
    let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
    let numbers = listed.lines().map(|line| line.parse().unwrap());
    numbers.collect()
}

/// Whether no thread of a process runs, because it was stopped or has exited.
pub fn is_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().flatten().all(|thread| {
        // The state follows the name, which is in parentheses and may itself contain parentheses.
        fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| {
            let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
            matches!(state, Some("T" | "t" | "Z" | "X"))
        })
    })
}

pub fn address(host: &Host) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(host.side.ipv4()), PORT)
}

fn connect(lab: &Lab, time: Duration) -> std::io::Result<TcpStream> {
    let address = address(&lab.server);
    let stream = lab
        .client
        .namespace
        .run(|| TcpStream::connect_timeout(&address, time))
        .unwrap()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Ok(stream)
}

pub fn lab() -> Lab {
    let text = "name = \"wire\"\nsource = \"made for this test\"\n[both]\npropagation = \"1ms\"\n";
    let profile = Profile::from_toml(text, "wire.toml").unwrap();
    Lab::start(&profile, &WireOptions::new(Seed(1)), |_| {
        TcpSettings::default()
    })
    .unwrap()
}

pub fn group() -> Group {
    let limits = Limits {
        cpu: Some(CpuLimit::cores(0.8)),
        memory: Some(Bytes(256 << 20)),
        ..Limits::default()
    };
    Group::create("server", &limits).unwrap()
}

/// Starts a server, which must fail; returns the error.
pub fn refusal(definition: &Definition, throttle: Throttle) -> ServerError {
    let installed = definition.program.as_ref().and_then(server::find);
    let (lab, group, files) = (lab(), group(), Files::new());
    let refused = limited::start(
        definition,
        installed.as_ref(),
        &lab.server,
        &group,
        files.folder(),
        throttle,
    )
    .unwrap_err();
    assert_eq!(processes(&group), Vec::<u32>::new());
    lab.stop();
    refused
}

/// The response to a request.
pub struct Answer {
    pub head: String,
    pub content: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Asserts that the response is exactly this file, with its media type.
    pub fn assert_is(&self, file: &File, server: &str) {
        assert!(
            self.head.starts_with("HTTP/1.1 200 "),
            "{server}: {}",
            self.head
        );
        assert!(
            self.content == *file.body.bytes(),
            "{server}: {}",
            file.path
        );
        let kind = self.field("content-type").unwrap();
        assert!(kind.starts_with(&*file.content_type), "{}", self.head);
    }
}

/// A connection that sends one request after another.
pub struct Asking(BufReader<TcpStream>);

impl Asking {
    pub fn new(stream: TcpStream) -> Asking {
        Asking(BufReader::new(stream))
    }

    pub fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    /// Requests a file with further fields, each ended by CRLF. Returns the response, or `None` if the server has
    /// closed the connection instead.
    pub fn ask(&mut self, path: &str, fields: &str) -> Option<Answer> {
        self.request(path, fields);
        self.answer()
    }

    pub fn request(&mut self, path: &str, fields: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        // If the server has closed the connection, the read of the response shows this.
        let _ = self.0.get_mut().write_all(request.as_bytes());
    }

    pub fn answer(&mut self) -> Option<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            // A reset counts as a close too.
            if self.0.read_line(&mut head).unwrap_or(0) == 0 {
                assert!(head.is_empty(), "{head}");
                return None;
            }
        }
        let mut answer = Answer {
            head,
            content: Vec::new(),
        };
        answer.content = match answer.field("content-length") {
            Some(length) => self.bytes(length.parse().unwrap()),
            None => self.chunks(),
        };
        Some(answer)
    }

    fn bytes(&mut self, number: usize) -> Vec<u8> {
        let mut bytes = vec![0; number];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        loop {
            let mut size = String::new();
            self.0.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
            let mut chunk = self.bytes(size + 2);
            chunk.truncate(size);
            content.extend(chunk);
            if size == 0 {
                return content;
            }
        }
    }
}

/// Finds the installed program of a definition; `None`, with a message, if this machine cannot run the program.
pub fn installed(definition: &Definition) -> Option<Option<Installed>> {
    let name = &definition.name;
    let found = definition.program.as_ref().map(|program| {
        let installed = server::find(program);
        assert!(
            installed.is_some() || !(required("FATHOMETER_REQUIRE_TOOLS") && is_required(name)),
            "{} is required",
            program.package
        );
        installed
    });
    if let Some(None) = found {
        eprintln!("SKIPPED: {name} is not installed");
        return None;
    }
    possible(name).then(|| found.flatten())
}

fn is_required(name: &str) -> bool {
    REQUIRED.contains(&name)
}

fn required(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value == "1")
}

/// Whether this machine allows a lab and a control group; prints a message if it does not.
pub fn possible(what: &str) -> bool {
    fathometer_lab::program::is_at(PathBuf::from(env!("CARGO_BIN_EXE_fathometer")));
    let device =
        Namespace::new().and_then(|namespace| namespace.run(|| Tun::create("try0", 1500, 8)));
    let limits = Limits {
        cpu: Some(CpuLimit::cores(1.0)),
        memory: Some(Bytes(64 << 20)),
        ..Limits::default()
    };
    let group = Group::create("try", &limits);
    if matches!(device, Ok(Ok(_))) && group.is_ok() {
        return true;
    }
    assert!(!required("FATHOMETER_REQUIRE_LAB"), "a lab is required");
    eprintln!("SKIPPED: {what}: this machine allows no namespaces, TUN devices or control groups");
    false
}
