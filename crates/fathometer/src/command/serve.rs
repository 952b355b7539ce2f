//! `fathometer serve`: the origin on a real address.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fathometer_http::origin::Origin;
use fathometer_model::{Bytes, Seed, Site};
use fathometer_sys::{Clock, Interrupt};
use fathometer_workload::microscape::Variant;

use super::Failure;
use crate::origin::{OriginLoop, OriginSockets};
use crate::server::definition::Definition;
use crate::server::{self, Demands};
use crate::site_folder;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The folder to serve
    #[arg(required_unless_present = "site", conflicts_with = "site")]
    folder: Option<PathBuf>,
    /// A workload's site instead of a folder: microscape
    #[arg(long)]
    site: Option<String>,
    /// The seed of that site's content
    #[arg(long, default_value_t = 1997)]
    seed: u64,
    /// Where to listen; may be given several times, port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: Vec<SocketAddr>,
    /// How it presents itself: embedded, embedded-jigsaw or embedded-apache
    #[arg(long = "as", default_value = "embedded", value_name = "SERVER")]
    dress: String,
    /// Close a connection after so many requests
    #[arg(long, value_name = "N")]
    max_requests: Option<u32>,
    /// Close both halves of a connection at once, as careless servers do
    #[arg(long)]
    careless_close: bool,
    /// Leave Nagle's algorithm on
    #[arg(long)]
    nagle: bool,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(arguments: &ServeArguments) -> Result<ExitCode, Failure> {
    let site: Site = match (&arguments.site, &arguments.folder) {
        (Some(name), _) => super::site::workload(name, Seed(arguments.seed), Variant::LowerCase)?,
        (None, Some(folder)) => site_folder::read(folder)?,
        (None, None) => return Err("give a folder or --site".into()),
    };
    let definition = Definition::load(&arguments.dress)?;
    let Some(embedded) = &definition.embedded else {
        return Err(format!(
            "{} is a program of its own, not a way for this origin to present itself",
            definition.name
        )
        .into());
    };
    let demands = Demands {
        max_requests: arguments.max_requests,
        careless_close: arguments.careless_close,
        nodelay: !arguments.nagle,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    };
    let interrupt = Interrupt::install()?;
    let clock = Clock::start();
    let files = site.files.len();
    let bytes: Bytes = site.files.iter().map(|file| file.body.len()).sum();
    let origin: Arc<Origin> =
        server::embedded_origin(&definition.name, embedded, &Arc::new(site), clock)?;
    let config = Arc::new(server::embedded_config(embedded, demands));
    let sockets = OriginSockets {
        nodelay: demands.nodelay,
        quick_ack: None,
    };
    let origin = OriginLoop::bind(&arguments.listen, origin, config, sockets, clock)
        .map_err(|error| listen_failure(&arguments.listen, &error))?;
    for address in origin.addresses()? {
        println!("serving {files} files of {bytes} on http://{address}/");
    }
    let handle = origin.handle();
    let thread = std::thread::Builder::new()
        .name("origin".to_owned())
        .spawn(move || origin.run())?;
    while !interrupt.is_raised() && !thread.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let answered = handle.responses();
    handle.stop();
    match thread.join() {
        Ok(statistics) => {
            let statistics = statistics?;
            eprintln!(
                "{answered} responses over {} connections",
                statistics.connections
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn listen_failure(addresses: &[SocketAddr], error: &std::io::Error) -> Failure {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    format!(
        "failed to listen on {}: {error}: end what listens there, or give another address with --listen",
        addresses.join(", ")
    )
    .into()
}
