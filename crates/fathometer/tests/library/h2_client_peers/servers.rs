//! Third-party servers, each configured for HTTP/2 without TLS.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::ports::free_address;
use crate::support::programs::tool;

/// The served files, and the other files that a server needs.
pub struct Folder {
    all: TempDir,
}

impl Folder {
    /// Creates an empty folder. Other users may read the folder and write uploads, because servers drop their
    /// privileges.
    pub fn new() -> Folder {
        let folder = Folder {
            all: tempfile::tempdir().unwrap(),
        };
        let upload = folder.site().join("upload");
        fs::create_dir_all(&upload).unwrap();
        for (path, mode) in [
            (folder.all.path(), 0o755),
            (&folder.site(), 0o755),
            (&upload, 0o777),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.site().join(name), content).unwrap();
    }

    pub fn read(&self, target: &str) -> Vec<u8> {
        fs::read(self.site().join(target.trim_start_matches('/'))).unwrap()
    }

    fn site(&self) -> PathBuf {
        self.all.path().join("site")
    }

    fn own(&self) -> &Path {
        self.all.path()
    }

    /// Writes a configuration file; returns its path.
    fn configuration(&self, text: &str) -> PathBuf {
        let path = self.own().join("configuration");
        fs::write(&path, text).unwrap();
        path
    }
}

/// A server that runs until dropped.
pub struct Server {
    pub name: &'static str,
    pub address: SocketAddr,
    child: Child,
}

pub fn nghttpd(folder: &Folder) -> Option<Server> {
    start("nghttpd", |program, address| {
        let mut command = Command::new(program);
        command
            .args(["--no-tls", "--echo-upload", "-a", "127.0.0.1", "-d"])
            .arg(folder.site())
            .arg(address.port().to_string());
        command
    })
}

pub fn h2o(folder: &Folder) -> Option<Server> {
    start("h2o", |program, address| {
        let site = folder.site();
        let text = format!(
            "listen:\n  host: {}\n  port: {}\nhosts:\n  default:\n    paths:\n      /:\n        \
             file.dir: {}\n",
            address.ip(),
            address.port(),
            site.display()
        );
        let mut command = Command::new(program);
        command.arg("-c").arg(folder.configuration(&text));
        command
    })
}

pub fn caddy(folder: &Folder) -> Option<Server> {
    start("caddy", |program, address| {
        let site = folder.site();
        let text = format!(
            "{{\n  admin off\n  auto_https off\n  servers {{\n    protocols h1 h2 h2c\n  }}\n}}\n\
             http://{address} {{\n  root * {}\n  file_server\n}}\n\
             http://localhost:{} {{\n  bind {}\n  root * {}\n  file_server\n}}\n",
            site.display(),
            address.port(),
            address.ip(),
            site.display()
        );
        let mut command = Command::new(program);
        command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(folder.configuration(&text))
            .env("XDG_DATA_HOME", folder.own())
            .env("XDG_CONFIG_HOME", folder.own());
        command
    })
}

pub fn nginx(folder: &Folder) -> Option<Server> {
    start("nginx", |program, address| {
        let own = folder.own().display();
        let site = folder.site();
        let text = format!(
            "daemon off;\nmaster_process off;\nuser root;\nworker_processes 1;\n\
             pid {own}/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 256; }}\n\
             http {{\n  access_log off;\n  client_body_temp_path {own}/body;\n  \
             proxy_temp_path {own}/proxy;\n  fastcgi_temp_path {own}/fastcgi;\n  \
             uwsgi_temp_path {own}/uwsgi;\n  scgi_temp_path {own}/scgi;\n  \
             client_max_body_size 10m;\n  keepalive_requests 1000;\n  \
             server {{\n    listen {address} http2;\n    root {};\n    \
             location /upload/ {{ dav_methods PUT; }}\n  }}\n}}\n",
            site.display()
        );
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(folder.configuration(&text))
            .args(["-e", "stderr"]);
        command
    })
}

/// Starts a server at a free port; `None`, with a message on stderr, if it is not installed.
fn start(name: &'static str, command: impl Fn(&Path, SocketAddr) -> Command) -> Option<Server> {
    let program = tool(name)?;
    for _ in 0..3 {
        let address = free_address();
        let child = command(&program, address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Server {
            name,
            address,
            child,
        };
        if server.listens() {
            return Some(server);
        }
    }
    panic!("{name} does not start");
}

impl Server {
    /// Waits until the server accepts connections; returns false if it exited instead.
    fn listens(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(120);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // On SIGTERM, servers with workers also stop their workers.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
