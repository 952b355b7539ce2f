//! Servers under test: reads their definitions ([`definition`]), and starts a server in a host of a lab.

mod credentials;
pub mod definition;
pub mod limited;
mod probe;
mod processes;
mod program;
mod throttle;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_http::h1::server::{CloseManner, Coalesce, ServerConfig};
use fathometer_http::h2;
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::Packages;
use fathometer_http::origin::{Origin, OriginConfig, OriginError};
use fathometer_model::{Bytes, Instant, Site};
use fathometer_sys::usage::ThreadClock;
use fathometer_sys::{Clock, socket};
use fathometer_tls::{ServerOptions, ServerSettings, SettingsError, Tickets};

pub use self::credentials::{Access, Credentials, ServerSlot};
use self::definition::{CoalesceRule, Definition, DefinitionError, Embedded, Program};
use self::probe::Ready;
use self::processes::{Processes, Start};
use self::program::Place;
pub use self::program::{Installed, command, find};
pub use self::throttle::{Capabilities, Capability, Throttle};
use crate::hosts::Host;
use fathometer_files::scratch::{Scratch, ScratchError, no_room};
use fathometer_origin::folder::{Bounds, FolderStore};
use fathometer_origin::{
    OriginHandle, OriginLoop, OriginSockets, OriginStatistics, PackageFolder, Protocols,
};

/// The port of servers under test without TLS; see [`Access::port`].
pub const PORT: u16 = 80;

/// The limit of early data in bytes, if the embedded origin accepts early data. It is large enough for all requests of
/// a page.
const MOST_EARLY_DATA: u32 = 64 * 1024;

/// The settings that a cell requests from its server.
#[derive(Debug, Clone, Copy)]
pub struct Demands {
    /// The server closes a connection after this number of requests.
    pub max_requests: Option<u32>,
    /// Whether the server closes both directions of a connection at the same time.
    pub careless_close: bool,
    /// Whether TCP_NODELAY is set.
    pub nodelay: bool,
    /// TCP_QUICKACK of the listening socket. The accepted connections inherit it. `None` for the kernel's default.
    pub quick_ack: Option<bool>,
    /// The service time of the embedded origin for each request.
    pub service_time: Duration,
    /// The additional service time for the first request of a connection.
    pub connection_time: Duration,
}

/// The content that a server serves: a site in memory, which only the embedded origin uses, and the same site in a
/// folder.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The site.
    pub site: &'a Arc<Site>,
    /// The folder with the site's files.
    pub folder: &'a Path,
    /// The files that the embedded origin may push, for each page.
    pub push: &'a Plan,
    /// The files that the embedded origin announces by 103 (Early Hints) before a page.
    pub early_hints: &'a Plan,
    /// The packages that the embedded origin serves.
    pub packages: &'a Packages,
    /// The storage from which the embedded origin reads files.
    pub storage: Storage<'a>,
}

/// The storage from which the embedded origin reads files.
#[derive(Debug, Clone, Copy)]
pub enum Storage<'a> {
    /// The site in memory.
    Memory,
    /// The folder.
    Disk {
        /// The bounds of the cache that stores files between requests.
        bounds: Bounds,
        /// The folder for packages that are built in advance. With `None`, they are in a folder that is removed with
        /// the origin.
        packages_in: Option<&'a Path>,
    },
}

/// A running server.
#[derive(Debug)]
pub enum Running {
    /// The embedded origin on a thread of this process.
    Embedded {
        /// The handle that stops the origin.
        handle: OriginHandle,
        /// The origin's thread.
        thread: JoinHandle<std::io::Result<OriginStatistics>>,
    },
    /// Another program.
    Program(RunningProgram),
}

/// Another program that is running.
#[derive(Debug)]
pub struct RunningProgram(Processes);

/// The report of a server after it stopped.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerReport {
    /// The statistics of the embedded origin; `None` for a program.
    pub origin: Option<OriginStatistics>,
    /// The CPU time of a program and its descendants; `None` for the embedded origin.
    pub program_cpu: Option<Duration>,
}

/// The reason why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The definition is invalid.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The embedded origin cannot serve the site.
    #[error("failed to set up the origin: {0}")]
    Origin(#[from] OriginError),
    /// A system call failed.
    #[error("failed to {doing}: {error}{advice}", advice = no_room(error))]
    System {
        /// The operation that failed.
        doing: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A temporary folder could not be created.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// An error of `fathometer-sys`.
    #[error(transparent)]
    Sys(#[from] fathometer_sys::Error),
    /// TLS cannot be set up.
    #[error("failed to set up TLS: {0}")]
    Tls(#[from] SettingsError),
    /// The program is not installed.
    #[error("{name} is not installed: install the package {package}")]
    Missing {
        /// The server.
        name: String,
        /// The Debian packages.
        package: String,
    },
    /// The program does not support a requested setting. So the cell cannot run with this server.
    #[error("{name} does not support a requested setting: {reason}")]
    Cannot {
        /// The server.
        name: String,
        /// The reason, from the program's definition or its last output.
        reason: String,
    },
    /// The program exited by itself.
    #[error("{name} exited before it accepted connections: {output}")]
    Ended {
        /// The server.
        name: String,
        /// The end of the program's error log.
        output: String,
    },
    /// The program runs but does not listen.
    #[error("{name} did not accept connections within {seconds} s: {output}")]
    NotReady {
        /// The server.
        name: String,
        /// The time limit, in seconds.
        seconds: u64,
        /// The end of the program's error log.
        output: String,
    },
}

impl ServerError {
    /// Whether the server does not support the requested settings. The cell is then left out and does not count as
    /// failed.
    pub fn is_inability(&self) -> bool {
        matches!(self, ServerError::Cannot { .. })
    }

    fn missing(definition: &Definition, program: &Program) -> ServerError {
        ServerError::Missing {
            name: definition.name.clone(),
            package: program.package.clone(),
        }
    }
}

/// Starts a server in a host, without TLS, and waits until it answers.
pub fn start(
    definition: &Definition,
    installed: Option<&Installed>,
    host: &Host,
    content: Content<'_>,
    demands: Demands,
    clock: Clock,
) -> Result<Running, ServerError> {
    let access = Access::Clear;
    start_with_access(definition, installed, host, content, demands, access, clock)
}

/// Starts a server in a host, with or without TLS, and waits until it answers.
pub fn start_with_access(
    definition: &Definition,
    installed: Option<&Installed>,
    host: &Host,
    content: Content<'_>,
    demands: Demands,
    access: Access<'_>,
    clock: Clock,
) -> Result<Running, ServerError> {
    if let Some(embedded) = &definition.embedded {
        let origin = origin_of(&definition.name, embedded, content, clock)?;
        let protocols = protocols(embedded_config(embedded, demands), access, clock)?;
        return start_embedded(origin, protocols, host, demands, access, clock);
    }
    let program = definition.program.as_ref().expect("load checked it");
    let Some(installed) = installed else {
        return Err(ServerError::missing(definition, program));
    };
    start_program(
        definition,
        program,
        installed,
        host,
        content.folder,
        demands,
        access,
    )
    .map(Running::Program)
}

impl Running {
    /// The number of responses whose last byte the embedded origin has passed to the kernel; `None` for a program.
    pub fn responses(&self) -> Option<u64> {
        match self {
            Running::Embedded { handle, .. } => Some(handle.responses()),
            Running::Program(_) => None,
        }
    }

    /// The CPU-time clock of the embedded origin's thread; `None` for a program.
    pub fn thread(&self) -> Option<ThreadClock> {
        match self {
            Running::Embedded { thread, .. } => ThreadClock::of(thread),
            Running::Program(_) => None,
        }
    }

    /// Stops the server and returns its report.
    pub fn stop(self) -> Result<ServerReport, ServerError> {
        match self {
            Running::Embedded { handle, thread } => {
                handle.stop();
                match thread.join() {
                    Ok(Ok(statistics)) => Ok(ServerReport {
                        origin: Some(statistics),
                        program_cpu: None,
                    }),
                    Ok(Err(error)) => Err(ServerError::System {
                        doing: "run the origin's loop".to_owned(),
                        error,
                    }),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Running::Program(program) => Ok(ServerReport {
                origin: None,
                program_cpu: Some({
                    let exit = program.0.stop()?;
                    exit.user + exit.system
                }),
            }),
        }
    }
}

/// Returns the configuration of the embedded origin for a definition and a cell's settings.
pub fn embedded_config(embedded: &Embedded, demands: Demands) -> ServerConfig {
    ServerConfig {
        max_requests_per_connection: demands.max_requests,
        close: if demands.careless_close {
            CloseManner::Full
        } else {
            CloseManner::HalfThenDrain
        },
        coalesce: match embedded.coalesce {
            CoalesceRule::EachResponse => Coalesce::EachResponse,
            CoalesceRule::UntilInputWouldBlock => Coalesce::UntilInputWouldBlock,
            CoalesceRule::UntilInputDrained => Coalesce::UntilInputDrained,
        },
        output_buffer: Bytes(embedded.output_buffer),
        service_time: demands.service_time,
        connection_time: demands.connection_time,
        events: true,
        ..ServerConfig::default()
    }
}

/// Returns the HTTP/2 configuration that corresponds to an HTTP/1 configuration: common limits are equal.
pub fn http2_config(http1: &ServerConfig) -> h2::server::ServerConfig {
    let mut config = h2::server::ServerConfig {
        max_requests_per_connection: http1.max_requests_per_connection,
        close: http1.close,
        service_time: http1.service_time,
        connection_time: http1.connection_time,
        events: http1.events,
        request_text: http1.request_text,
        ..h2::server::ServerConfig::default()
    };
    config.limits.keep_alive = http1.limits.keep_alive;
    config
}

/// Returns the protocols of the embedded origin for this access: HTTP/1 and HTTP/2. With TLS, the handshake selects one
/// of them. Sessions are resumed only with tickets.
pub fn protocols(
    http1: ServerConfig,
    access: Access<'_>,
    clock: Clock,
) -> Result<Protocols, ServerError> {
    let tls = match access.credentials() {
        None => None,
        Some(credentials) => {
            let unix_time = clock.realtime_of(Instant::ZERO);
            let mut options = ServerOptions::new(credentials.identity().clone(), unix_time);
            options.alpn = alpn(true, true);
            if credentials.takes_early_data() {
                // Early data is protected from replay only if each ticket is accepted at most once (RFC 8446 section
                // 8.1).
                options.tickets = Tickets::Stateful {
                    count: 2,
                    capacity: 1024,
                };
                options.early_data = Some(MOST_EARLY_DATA);
            }
            Some(ServerSettings::new(options)?)
        }
    };
    Ok(Protocols {
        http2: Some(Arc::new(http2_config(&http1))),
        http1: Some(Arc::new(http1)),
        tls,
    })
}

/// Returns the ALPN protocol names, in order of preference. HTTP/1.0 has its own name, which many servers do not
/// support.
pub fn alpn(http1: bool, http2: bool) -> Vec<Vec<u8>> {
    let names: [(bool, &[u8]); 3] = [(http2, b"h2"), (http1, b"http/1.1"), (http1, b"http/1.0")];
    let served = names.iter().filter(|(is_served, _)| *is_served);
    served.map(|(_, name)| name.to_vec()).collect()
}

/// Builds the embedded origin for a definition and a site, without push, early hints and packages.
pub fn embedded_origin(
    name: &str,
    embedded: &Embedded,
    site: &Arc<Site>,
    clock: Clock,
) -> Result<Arc<Origin>, ServerError> {
    let content = Content {
        site,
        folder: Path::new(""),
        push: &Plan::default(),
        early_hints: &Plan::default(),
        packages: &Packages::default(),
        storage: Storage::Memory,
    };
    origin_of(name, embedded, content, clock)
}

/// Builds the embedded origin for a definition and its content. Packages that are built in advance exist when this
/// function returns; their disk accesses are not counted.
pub fn origin_of(
    name: &str,
    embedded: &Embedded,
    content: Content<'_>,
    clock: Clock,
) -> Result<Arc<Origin>, ServerError> {
    let config = OriginConfig {
        persona: embedded.persona(name)?,
        wall_clock: clock.realtime_of(Instant::ZERO),
        push: content.push.clone(),
        early_hints: content.early_hints.clone(),
        packages: content.packages.clone(),
        ..OriginConfig::default()
    };
    let origin = match content.storage {
        Storage::Memory => Origin::new(Arc::clone(content.site), config)?,
        Storage::Disk {
            bounds,
            packages_in,
        } => {
            let store = folder_store(content.folder, bounds, packages_in).map_err(|error| {
                ServerError::System {
                    doing: format!("serve {}", content.folder.display()),
                    error,
                }
            })?;
            Origin::of_store(Box::new(store), config)?
        }
    };
    origin.prepare(clock.now());
    origin.take_work();
    Ok(Arc::new(origin))
}

fn folder_store(
    folder: &Path,
    bounds: Bounds,
    packages_in: Option<&Path>,
) -> std::io::Result<FolderStore> {
    let packages = match packages_in {
        Some(path) => PackageFolder::at(path),
        None => PackageFolder::temporary()?,
    };
    FolderStore::open(folder, bounds)?.with_packages(&packages)
}

fn start_program(
    definition: &Definition,
    program: &Program,
    installed: &Installed,
    host: &Host,
    root: &Path,
    demands: Demands,
    access: Access<'_>,
) -> Result<RunningProgram, ServerError> {
    let system = |doing: &str| {
        let doing = doing.to_owned();
        move |error| ServerError::System { doing, error }
    };
    let runtime = Scratch::new()?;
    let place = Place {
        address: SocketAddr::new(IpAddr::V4(host.side.ipv4()), access.port()),
        root,
        runtime: runtime.path(),
        access,
        behind: program::behind_address(ServerSlot::First),
    };
    let throttle = Throttle {
        // The cell overrides the program's default number of requests per connection.
        keep_alive_requests: Some(demands.max_requests.unwrap_or(0)),
        ..Throttle::default()
    };
    let command = program::throttled_command(definition, program, installed, place, &throttle)?;
    let start = Start {
        name: &definition.name,
        ready: Ready::of(program, access),
        address: place.address,
        stop: program.stop,
    };
    let processes = Processes::start(&start, command, host, runtime)?;
    if let Some(quick) = demands.quick_ack {
        for socket in processes.listening_sockets()? {
            socket::set_quick_ack(&socket, quick)
                .map_err(system("set TCP_QUICKACK on the server's socket"))?;
        }
    }
    Ok(RunningProgram(processes))
}

fn start_embedded(
    origin: Arc<Origin>,
    protocols: Protocols,
    host: &Host,
    demands: Demands,
    access: Access<'_>,
    clock: Clock,
) -> Result<Running, ServerError> {
    let port = access.port();
    let addresses = [
        SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), port),
        SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), port),
    ];
    let sockets = OriginSockets {
        nodelay: demands.nodelay,
        quick_ack: demands.quick_ack,
        backlog: None,
    };
    let (sender, result) = std::sync::mpsc::sync_channel(1);
    let thread = host.namespace.spawn("origin", move || {
        match OriginLoop::bind(&addresses, origin, protocols, sockets, clock) {
            Err(error) => {
                let kind = error.kind();
                let _ = sender.send(Err(error));
                Err(kind.into())
            }
            Ok(origin) => {
                let _ = sender.send(Ok(origin.handle()));
                origin.run()
            }
        }
    })?;
    match result.recv() {
        Ok(Ok(handle)) => Ok(Running::Embedded { handle, thread }),
        Ok(Err(error)) => Err(ServerError::System {
            doing: format!("listen on port {port} of the server's host"),
            error,
        }),
        Err(_) => Err(ServerError::System {
            doing: "start the origin's thread".to_owned(),
            error: std::io::ErrorKind::Other.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use fathometer_http::h1::server::Connection;
    use fathometer_model::Seed;
    use fathometer_workload::microscape;

    use super::*;

    /// Returns the mean length of the response header sections, in bytes, over requests for all files.
    fn mean_head(name: &str, field: &str) -> f64 {
        let definition = Definition::load(name).unwrap();
        let embedded = definition.embedded.as_ref().unwrap();
        let site = microscape::site(Seed(1997), microscape::Variant::LowerCase);
        let paths: Vec<String> = site.files.iter().map(|file| file.path.clone()).collect();
        let clock = Clock::start();
        let origin = embedded_origin(name, embedded, &Arc::new(site), clock).unwrap();
        let demands = Demands {
            max_requests: None,
            careless_close: false,
            nodelay: true,
            quick_ack: None,
            service_time: Duration::ZERO,
            connection_time: Duration::ZERO,
        };
        let config = Arc::new(embedded_config(embedded, demands));
        let mut connection = Connection::new(origin, config, Instant::ZERO);
        let mut heads = 0;
        for path in &paths {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{field}\r\n");
            connection.handle_data(request.as_bytes(), Instant::ZERO);
            loop {
                let mut slices = [IoSlice::new(&[]); 8];
                let filled = connection.transmit(&mut slices);
                if filled == 0 {
                    break;
                }
                let bytes = slices[..filled].iter().map(|slice| slice.len()).sum();
                connection.transmitted(bytes, Instant::ZERO);
            }
            heads += connection.poll_event().unwrap().head.0;
        }
        heads as f64 / paths.len() as f64
    }

    /// The sizes follow from tables 8 and 9 and from requests of 169 and 204 bytes, as stated in the definitions.
    #[test]
    fn personas_have_the_head_sizes_of_the_paper() {
        for (name, ok, not_modified) in [
            ("embedded-jigsaw", 282.0, 204.0),
            ("embedded-apache", 216.0, 118.0),
        ] {
            for (field, paper) in [("", ok), ("If-None-Match: *\r\n", not_modified)] {
                let measured = mean_head(name, field);
                let error = measured / paper - 1.0;
                assert!(
                    error.abs() < 0.025,
                    "{name}: {measured} bytes measured, {paper} bytes in the paper"
                );
            }
        }
    }
}
