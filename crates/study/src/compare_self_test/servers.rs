//! The site and the servers of the self-test.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fathometer_files::scratch::Scratch;
use fathometer_sys::Clock;

use super::SelfTestError;

/// The longest wait until a server listens.
const START: Duration = Duration::from_secs(10);

/// Creates a folder with a file of 1 KiB.
pub(super) fn site() -> Result<Scratch, SelfTestError> {
    let folder = Scratch::new().map_err(io::Error::from)?;
    fs::write(folder.path().join("index.html"), [b'x'; 1024])?;
    Ok(folder)
}

/// A server that uses CPU time for each request. Dropping it kills the process.
pub(super) struct Server {
    child: Child,
    pub(super) url: String,
}

impl Server {
    pub(super) fn start(site: &Path, work: u64, clock: Clock) -> Result<Server, SelfTestError> {
        // Dropping this listener frees the port for the server.
        let address: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(std::env::current_exe()?)
            .args(["bottleneck", "--serve-slowly", &format!("work={work}")])
            .args(["--at", &address.to_string(), "--site"])
            .arg(site)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let server = Server {
            child,
            url: format!("http://{address}/index.html"),
        };
        let until = clock.now() + START;
        while TcpStream::connect(address).is_err() {
            if clock.now() >= until {
                return Err(SelfTestError::Failed(
                    "the server of the self-test does not listen".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    pub(super) fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
