//! Servers that compress on the fly, and the client that requests all files from them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Setting;
use crate::bench::load::server::{cpu_of, free_address, pinned, spawn};

/// The average cost of a compressed response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    /// CPU time of the server, in seconds.
    pub(super) processor: f64,
    /// Bytes of content.
    pub(super) bytes: f64,
}

/// A running server, killed on drop.
pub(super) struct Served {
    child: Child,
    address: SocketAddr,
    coding: &'static str,
    /// The file with the stderr of the server.
    output: PathBuf,
}

impl Served {
    /// `fathometer serve` with one thread, and memory for about a fifth of the compressed content.
    pub(super) fn ours(
        ours: &Path,
        folder: &Path,
        site: &Path,
        setting: Setting,
        processor: usize,
    ) -> Result<Served, String> {
        let output = folder.join(format!("output-{}", setting.name()));
        let stderr =
            File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?;
        let mut command = pinned(processor);
        command
            .arg(ours)
            .arg("serve")
            .arg(site)
            .args(["--listen", "127.0.0.1:0", "--threads", "1"])
            .args([
                "--compress",
                &format!("{}:{}", setting.coding, setting.level),
            ])
            .args(["--compress-memory", "300k"])
            .stdout(Stdio::piped())
            .stderr(stderr);
        let mut child = spawn(&mut command)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            // If no line is read, the server has exited, and the cause is on its stderr.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let address = line
            .rsplit_once("http://")
            .and_then(|(_, rest)| rest.trim().trim_end_matches('/').parse().ok());
        match address {
            Some(address) => Ok(Served {
                child,
                address,
                coding: setting.coding,
                output,
            }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("fathometer serve wrote {line:?}"))
            }
        }
    }

    /// nginx with a single process and cached descriptors.
    pub(super) fn nginx(
        folder: &Path,
        site: &Path,
        setting: Setting,
        processor: usize,
    ) -> Result<Served, String> {
        let address = free_address()?;
        let own = folder.join(format!("nginx-{}", setting.name()));
        let level = setting.level;
        let (module, compression) = match setting.coding {
            "gzip" => (String::new(), format!("gzip on;\ngzip_comp_level {level};")),
            _ => (
                format!("load_module {};\n", brotli_module()?),
                format!("brotli on;\nbrotli_comp_level {level};"),
            ),
        };
        let configuration = format!(
            "{module}daemon off;\nmaster_process off;\npid {own}/pid;\nerror_log {own}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\naccess_log off;\nkeepalive_requests 1000000000;\nopen_file_cache max=1000;\n\
             types {{ text/html html; }}\n\
             {compression}\n\
             client_body_temp_path {own}/body;\nproxy_temp_path {own}/proxy;\n\
             fastcgi_temp_path {own}/fastcgi;\nuwsgi_temp_path {own}/uwsgi;\n\
             scgi_temp_path {own}/scgi;\n\
             server {{\nlisten {address};\nroot {site};\n}}\n}}\n",
            own = own.display(),
            site = site.display()
        );
        let file = own.join("nginx.conf");
        fs::create_dir_all(&own)
            .and_then(|()| fs::write(&file, configuration))
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
        let mut command = pinned(processor);
        // nginx is often not on an ordinary user's PATH.
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).is_file())
            .unwrap_or("nginx");
        command.args([program, "-c"]).arg(file).arg("-p").arg(&own);
        command.arg("-e").arg(own.join("start.log"));
        let server = Served {
            child: spawn(&mut command)?,
            address,
            coding: setting.coding,
            output: own.join("error.log"),
        };
        for _ in 0..200 {
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Err("nginx does not accept connections".to_owned())
    }

    /// Requests every file `passes` times over one connection.
    pub(super) fn measure(
        &self,
        folder: &Path,
        processor: usize,
        files: usize,
        passes: usize,
    ) -> Result<Spent, String> {
        let requests: String = (0..passes)
            .flat_map(|_| 0..files)
            .map(|file| {
                let url = format!("http://{}/{file}.html", self.address);
                format!("url = \"{url}\"\noutput = \"/dev/null\"\n")
            })
            .collect();
        let list = folder.join("requests");
        fs::write(&list, requests)
            .map_err(|error| format!("failed to write {}: {error}", list.display()))?;
        let before = cpu_of(self.child.id())?;
        let output = pinned(processor)
            .args(["curl", "--silent", "--show-error", "--fail"])
            .args(["--header", &format!("Accept-Encoding: {}", self.coding)])
            .args([
                "--write-out",
                "%{size_download} %header{content-encoding}\\n",
            ])
            .arg("--config")
            .arg(&list)
            .output()
            .map_err(|error| format!("failed to run curl: {error}"))?;
        let after = cpu_of(self.child.id())?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let coded = format!(" {}", self.coding);
        let sizes: Option<Vec<f64>> = printed
            .lines()
            .map(|line| line.strip_suffix(&coded)?.parse().ok())
            .collect();
        let responses = files * passes;
        match sizes {
            Some(sizes) if sizes.len() == responses => Ok(Spent {
                processor: (after - before) / responses as f64,
                bytes: sizes.iter().sum::<f64>() / responses as f64,
            }),
            _ => Err(format!(
                "not all of {responses} responses were compressed: {}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }

    /// Stops our server, and fails if it sent content from its cache.
    pub(super) fn check_nothing_was_reused(mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let stopped = Command::new("kill").args(["-TERM", &pid]).status();
        if !stopped.is_ok_and(|status| status.success()) {
            return Err("failed to stop fathometer serve".to_owned());
        }
        let _ = self.child.wait();
        let output = fs::read_to_string(&self.output)
            .map_err(|error| format!("{}: {error}", self.output.display()))?;
        match output.contains("; 0 responses reused one of them") {
            true => Ok(()),
            false => Err(format!("fathometer serve reused cached content: {output}")),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The server has no state to save, and its files are removed with the folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the module of nginx that compresses with Brotli.
fn brotli_module() -> Result<String, String> {
    let name = "ngx_http_brotli_filter_module.so";
    ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules"]
        .iter()
        .map(|folder| format!("{folder}/{name}"))
        .find(|path| Path::new(path).is_file())
        .ok_or_else(|| format!("{name} is missing; install libnginx-mod-http-brotli-filter"))
}
