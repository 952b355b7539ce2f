//! The servers of the bench: child processes that the bench stops at its end, on ports that the kernel chose,
//! with all their files in one temporary folder.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::place::{Place, installed};

/// Ticks per second of the times in `/proc`: a constant of the kernel's interface.
const TICKS: f64 = 100.0;

/// The settings of nginx beyond its defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tuning {
    /// nginx's defaults, except for the access log and the limit on requests.
    None,
    /// Descriptors and modification times of files cached: the fastest known way to send a small file.
    Fast,
    /// As `Fast`, with sendfile, and with each response head in the first segment of its file: the usual advice for
    /// large files.
    Sendfile,
}

/// A running server, killed on drop.
pub(super) struct Server {
    pub(super) name: &'static str,
    scheme: &'static str,
    address: SocketAddr,
    child: Child,
}

/// Creates a key and a certificate for it in `folder`, valid for one day.
pub(super) fn write_identity(folder: &Path) -> Result<(), String> {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"])
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(folder.join("key.pem"))
        .arg("-out")
        .arg(folder.join("chain.pem"))
        .output()
        .map_err(|error| format!("failed to run openssl: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "openssl made no certificate: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Writes files filled with the character `0` to `folder/site`, readable by any user.
pub(super) fn write_site(folder: &Path, files: &[(&str, usize)]) -> Result<(), String> {
    let site = folder.join("site");
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(&site)?;
        for folder in [folder, &site] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        }
        for (name, size) in files {
            fs::write(site.join(name), vec![b'0'; *size])?;
        }
        Ok(())
    };
    write().map_err(|error| format!("failed to write {}: {error}", site.display()))
}

/// A page for which nginx runs server-side includes.
pub(super) const PAGE_OF_INCLUDES: &str = "includes.html";

/// Writes [`PAGE_OF_INCLUDES`] to `folder/site`: 1 kB for which nginx runs many commands. A response takes several
/// times as much CPU time on the server as on a client.
pub(super) fn write_page_of_includes(folder: &Path) -> Result<(), String> {
    const COMMANDS: usize = 400;
    let mut page = "<!--# set var=\"a\" value=\"b\" -->".repeat(COMMANDS);
    page.push_str(&"0".repeat(super::SIZE));
    let file = folder.join("site").join(PAGE_OF_INCLUDES);
    fs::write(&file, page).map_err(|error| format!("failed to write {}: {error}", file.display()))
}

impl Server {
    /// `fathometer serve` with one thread.
    pub(super) fn ours(place: &Place, processor: usize) -> Result<Server, String> {
        Server::of_ours(place, processor, "http", &[])
    }

    /// Same as [`ours`](Self::ours), over TLS.
    pub(super) fn ours_secure(place: &Place, processor: usize) -> Result<Server, String> {
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| place.folder.join(name));
        let arguments = [
            "--certificate".as_ref(),
            chain.as_os_str(),
            "--key".as_ref(),
            key.as_os_str(),
        ];
        Server::of_ours(place, processor, "https", &arguments)
    }

    /// Same as [`ours_secure`](Self::ours_secure), with HTTP/3 in addition.
    pub(super) fn ours_http3(place: &Place, processor: usize) -> Result<Server, String> {
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| place.folder.join(name));
        let arguments = [
            "--http3".as_ref(),
            "--certificate".as_ref(),
            chain.as_os_str(),
            "--key".as_ref(),
            key.as_os_str(),
        ];
        Server::of_ours(place, processor, "https", &arguments)
    }

    /// Caddy with HTTP/3 by quic-go, on one processor; `None` when it is not installed.
    pub(super) fn caddy(folder: &Path, processor: usize) -> Result<Option<Server>, String> {
        let Some(program) = installed("caddy") else {
            return Ok(None);
        };
        let address = free_address()?;
        let own = folder.join("caddy");
        let configuration = format!(
            "{{\n  admin off\n  auto_https disable_redirects\n  skip_install_trust\n}}\n\
             https://127.0.0.1:{} {{\n  bind 127.0.0.1\n  tls {} {}\n  root * {}\n  file_server\n}}\n",
            address.port(),
            folder.join("chain.pem").display(),
            folder.join("key.pem").display(),
            folder.join("site").display(),
        );
        let file = own.join("Caddyfile");
        fs::create_dir_all(&own)
            .and_then(|()| fs::write(&file, configuration))
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
        let mut command = pinned(processor);
        command
            .args([&program, "run", "--adapter", "caddyfile", "--config"])
            .arg(file)
            .env("XDG_DATA_HOME", &own)
            .env("XDG_CONFIG_HOME", &own)
            .env("GOMAXPROCS", "1")
            .stderr(Stdio::null());
        let child = spawn(&mut command)?;
        Server {
            name: "Caddy",
            scheme: "https",
            address,
            child,
        }
        .ready()
        .map(Some)
    }

    fn of_ours(
        place: &Place,
        processor: usize,
        scheme: &'static str,
        arguments: &[&OsStr],
    ) -> Result<Server, String> {
        let mut command = pinned(processor);
        command
            .arg(&place.ours)
            .arg("serve")
            .arg(place.folder.join("site"))
            .args(["--listen", "127.0.0.1:0", "--threads", "1"])
            .args(arguments);
        let mut child = spawn(command.stdout(Stdio::piped()))?;
        let mut output = String::new();
        if let Some(stdout) = child.stdout.take() {
            // If no line is read, the server has exited, and the cause is on its stderr.
            let _ = BufReader::new(stdout).read_line(&mut output);
        }
        let address = output
            .rsplit_once(&format!("{scheme}://"))
            .and_then(|(_, rest)| rest.trim().trim_end_matches('/').parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("fathometer serve wrote {output:?}"));
        };
        let name = "fathometer serve";
        Server {
            name,
            scheme,
            address,
            child,
        }
        .ready()
    }

    /// nginx with a single process.
    pub(super) fn nginx(folder: &Path, processor: usize, tuning: Tuning) -> Result<Server, String> {
        let (name, extra) = match tuning {
            Tuning::None => ("nginx", ""),
            Tuning::Fast => ("nginx with cached files", "open_file_cache max=1000;"),
            Tuning::Sendfile => (
                "nginx with sendfile",
                "open_file_cache max=1000;\nsendfile on;\ntcp_nopush on;",
            ),
        };
        let address = free_address()?;
        let runtime = folder.join(format!("nginx-{}", address.port()));
        let (site, own) = (folder.join("site"), runtime.display());
        let configuration = format!(
            "daemon off;\nmaster_process off;\npid {own}/pid;\nerror_log {own}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\naccess_log off;\nkeepalive_requests 1000000000;\n{extra}\n\
             types {{ text/html html; }}\n\
             client_body_temp_path {own}/body;\nproxy_temp_path {own}/proxy;\n\
             fastcgi_temp_path {own}/fastcgi;\nuwsgi_temp_path {own}/uwsgi;\n\
             scgi_temp_path {own}/scgi;\n\
             server {{\nlisten {address};\nroot {site};\n\
             location = /status {{ stub_status; }}\n\
             location = /{PAGE_OF_INCLUDES} {{ ssi on; }}\n\
             location /slow/ {{ alias {site}/; limit_rate 100k; sendfile_max_chunk 2k; }}\n}}\n}}\n",
            site = site.display()
        );
        let file = runtime.join("nginx.conf");
        fs::create_dir_all(&runtime)
            .and_then(|()| fs::write(&file, configuration))
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
        let mut command = pinned(processor);
        // nginx is often not on an ordinary user's PATH.
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).is_file())
            .unwrap_or("nginx");
        command
            .args([program, "-c"])
            .arg(file)
            .arg("-p")
            .arg(&runtime)
            .arg("-e")
            .arg(runtime.join("start.log"));
        let child = spawn(&mut command)?;
        Server {
            name,
            scheme: "http",
            address,
            child,
        }
        .ready()
    }

    /// nghttpd over TLS, with one thread; `None` when it is not installed.
    pub(super) fn nghttpd(folder: &Path, processor: usize) -> Result<Option<Server>, String> {
        let Some(program) = installed("nghttpd") else {
            return Ok(None);
        };
        let address = free_address()?;
        let mut command = pinned(processor);
        command
            .args([
                &program,
                "--address",
                "127.0.0.1",
                "--workers",
                "1",
                "--htdocs",
            ])
            .arg(folder.join("site"))
            .arg(address.port().to_string())
            .args([folder.join("key.pem"), folder.join("chain.pem")])
            .stdout(Stdio::null());
        let child = spawn(&mut command)?;
        Server {
            name: "nghttpd",
            scheme: "https",
            address,
            child,
        }
        .ready()
        .map(Some)
    }

    /// The address that the server listens on.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a file.
    pub(super) fn url(&self, file: &str) -> String {
        format!("{}://{}/{file}", self.scheme, self.address)
    }

    /// Requests that nginx has started to answer since its start, including this request.
    pub(super) fn requests(&self) -> Result<u64, String> {
        let answer = self.get("status")?;
        // Three numbers in the line after their names: accepts, handled, requests.
        answer
            .lines()
            .skip_while(|line| !line.starts_with("server accepts"))
            .nth(1)
            .and_then(|numbers| numbers.split_whitespace().nth(2)?.parse().ok())
            .ok_or_else(|| {
                format!("cannot read the number of requests in nginx's status: {answer:?}")
            })
    }

    /// The CPU time (user and system) that the server has used, in seconds.
    pub(super) fn cpu(&self) -> Result<f64, String> {
        cpu_of(self.child.id()).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Waits until the server answers with the correct file.
    fn ready(mut self) -> Result<Server, String> {
        for _ in 0..200 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} exited: {status}", self.name));
            }
            if TcpStream::connect(self.address).is_ok() {
                if self.scheme == "https" {
                    // Over TLS the port is enough; the clients check the responses.
                    return Ok(self);
                }
                let answer = self.get(super::FILE)?;
                let right = answer.starts_with("HTTP/1.1 200 ");
                let length = answer
                    .split_once("\r\n\r\n")
                    .map_or(0, |(_, body)| body.len());
                if right && length == super::SIZE {
                    return Ok(self);
                }
                return Err(format!("{} answers {answer:?}", self.name));
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Err(format!("{} does not accept connections", self.name))
    }

    fn get(&self, file: &str) -> Result<String, String> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(
                stream,
                "GET /{file} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().map_err(|error| format!("failed to request {file} from {}: {error}", self.name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has no state to save, and its files are removed with the folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free port of the loopback.
pub(in crate::bench) fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("failed to find a free port: {error}"))
}

/// CPU time that a process has used so far, user and system, in seconds.
pub(in crate::bench) fn cpu_of(pid: u32) -> Result<f64, String> {
    let file = format!("/proc/{pid}/stat");
    let text =
        fs::read_to_string(&file).map_err(|error| format!("the server exited: {file}: {error}"))?;
    // proc(5): utime and stime are fields 14 and 15; the second field ends with the last ")".
    let ticks: Vec<f64> = text
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().skip(11).take(2))
        .into_iter()
        .flatten()
        .filter_map(|field| field.parse().ok())
        .collect();
    match ticks.as_slice() {
        [user, system] => Ok((user + system) / TICKS),
        _ => Err(format!("{file} holds {text:?}")),
    }
}

/// Returns a command on one processor. taskset execs the program that it starts, so the process is the server itself.
pub(in crate::bench) fn pinned(processor: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &processor.to_string()]);
    command
}

/// Starts a server.
pub(in crate::bench) fn spawn(command: &mut Command) -> Result<Child, String> {
    command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("failed to run taskset: {error}"))
}
