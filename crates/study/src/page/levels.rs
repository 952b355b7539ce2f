//! Converts the levels of a page study's factors into settings.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    Bundle, FileKind, Flush, Http2Windows, Options, PageList, Policy, Revalidation, Visit,
};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Format, Formats, Making, Packages};
use fathometer_model::Bytes;
use fathometer_package::Version as Package;

use super::factors::{self, Companions, TlsLevel};
use super::site::{PageSite, Version as SiteVersion};
use crate::common;
use crate::experiment::{Setup, Shared};
use crate::factor::{Factor, LevelError};
use crate::spec::Cell;
use fathometer_lab::server::Demands;
use fathometer_quic_sockets::UdpOffload;

/// The parsed levels of a cell.
pub(super) struct Levels<'a> {
    pub(super) page: &'a PageSite,
    /// The sets of files that are retrieved one after another, if the workload has no page. A page's base file alone,
    /// if only this file is retrieved.
    pub(super) sets: Vec<Arc<PageList>>,
    /// The site at the time of the measured visit. It may differ from the site at the earlier visit.
    pub(super) site: &'a SiteVersion,
    /// Whether the visit starts with a cold page cache: none of the requested files is in the server's memory.
    pub(super) cold: bool,
    /// The packages that the server offers.
    pub(super) packages: Packages,
    pub(super) policy: Policy,
    pub(super) options: Options,
    pub(super) visit: Visit,
    pub(super) demands: Demands,
    pub(super) push: Plan,
    pub(super) early_hints: Plan,
    pub(super) tls: TlsLevel,
    pub(super) initial_window: Option<u32>,
    pub(super) congestion: Option<String>,
    pub(super) quick_ack: Option<bool>,
    pub(super) udp_offload: UdpOffload,
    /// The window of each stream of the HTTP/3 client in bytes; `None` for the usual window of browsers.
    pub(super) h3_window: Option<u32>,
}

impl Companions {
    fn of(self, page: &PageSite) -> Plan {
        let text = match self {
            Companions::Nothing => String::new(),
            Companions::Critical => page.companions(FileKind::is_critical),
            Companions::All => page.companions(|_| true),
        };
        text.parse().expect("the paths of a site are targets")
    }
}

impl<'a> Levels<'a> {
    pub(super) fn of(
        setup: &Setup<'_>,
        shared: &Shared<'_>,
        page: &'a PageSite,
    ) -> Result<Levels<'a>, LevelError> {
        let cell = setup.cell;
        let policy = common::POLICY.of(cell)?;
        let sets = match factors::RETRIEVE.of(cell)? {
            true if !page.is_sets() => vec![page.base_alone()],
            _ => page.sets_of(setup.replicate, factors::SETS.of(cell)?),
        };
        let site = page.version(factors::CHANGED.of(cell)?).ok_or_else(|| {
            let reason = "no version of the site with this number of changed files was built";
            LevelError::new("changed", cell.level("changed"), reason)
        })?;
        // Pacing imitates the machines of the paper's time, so it is not used with the era `today`.
        let period_pace = factors::PACE.of(cell)? && cell.level("era") != "today";
        let (service_time, connection_time) = match &setup.definition.embedded {
            Some(embedded) if period_pace => embedded.pace(cell.level("path")),
            _ => Default::default(),
        };
        let companions =
            |factor: &Factor<Companions>| factor.of(cell).map(|chosen| chosen.of(page));
        Ok(Levels {
            page,
            site,
            cold: factors::PAGE_CACHE.of(cell)?,
            packages: packages(cell, policy.bundle, &sets)?,
            sets,
            policy,
            options: options(setup, shared, policy, page)?,
            visit: common::VISIT.of(cell)?,
            demands: Demands {
                max_requests: factors::LIMIT.of(cell)?,
                careless_close: factors::CLOSE.of(cell)?,
                nodelay: factors::NODELAY.of(cell)?,
                quick_ack: setup.era.server_quick_ack,
                service_time,
                connection_time,
            },
            push: match policy.push {
                true => companions(&factors::PUSH)?,
                false => Plan::default(),
            },
            early_hints: companions(&factors::HINTS)?,
            tls: factors::TLS.of(cell)?,
            initial_window: factors::INITIAL_WINDOW.of(cell)?,
            congestion: factors::CONGESTION.of(cell)?,
            quick_ack: factors::QUICKACK.of(cell)?,
            udp_offload: common::UDP_OFFLOAD.of(cell)?,
            h3_window: factors::H3_WINDOW.of(cell)?,
        })
    }

    /// Returns the levels for the retrieval that fills a cache or a session store before the measured visit: a policy
    /// without special features, at full speed, on the original site.
    pub(super) fn plain(&self) -> Levels<'a> {
        Levels {
            site: &self.page.first,
            sets: self.sets.clone(),
            packages: self.packages.clone(),
            cold: false,
            policy: Policy {
                pipeline: None,
                ranges: false,
                // Each connection that will resume a session needs its own session ticket. So this retrieval opens as
                // many connections.
                connections: match self.tls.resumes {
                    true => self.policy.connections,
                    false => 1,
                },
                push: false,
                ..self.policy
            },
            options: Options {
                script_time: Duration::ZERO,
                ..self.options.clone()
            },
            visit: Visit::First,
            push: Plan::default(),
            early_hints: Plan::default(),
            initial_window: None,
            congestion: None,
            quick_ack: None,
            ..*self
        }
    }
}

/// Returns the server's packages, only of the kind that this policy requests.
fn packages(
    cell: &Cell,
    bundle: Option<Bundle>,
    sets: &[Arc<PageList>],
) -> Result<Packages, LevelError> {
    let making = factors::PACKAGES.of(cell)?;
    let (making, format) = match bundle {
        None => return Ok(Packages::default()),
        // Only the client's request lists the files that the client already has, so packages of this kind are built on
        // request.
        Some(Bundle::PackageDelta) => (Making::OnTheFly, Bundle::PackageDelta),
        Some(bundle) => (making, bundle),
    };
    let format = match format {
        Bundle::Package(version) => Format::Package(version),
        Bundle::PackageDelta => Format::Package(Package::Two),
        Bundle::Tar | Bundle::TarWhole => Format::Tar,
        Bundle::Zip => Format::Zip,
    };
    let lines = sets
        .iter()
        .map(|set| format!("{} {}\n", set.folder, set.files.join(" ")));
    Ok(Packages {
        making,
        formats: Formats::only(format),
        folders: !sets.is_empty(),
        plan: lines
            .collect::<String>()
            .parse()
            .expect("the paths of a site are targets"),
        // Files do not change during a replicate, so the freshness of packages is not checked.
        fresh: Duration::from_secs(3600),
        ..Packages::default()
    })
}

fn options(
    setup: &Setup<'_>,
    shared: &Shared<'_>,
    policy: Policy,
    page: &PageSite,
) -> Result<Options, LevelError> {
    let cell = setup.cell;
    let client = &shared.study.client;
    let flush = Flush {
        buffer: Bytes(factors::BUFFER.of(cell)?),
        ..factors::FLUSH.of(cell)?
    };
    let old = policy.to_string().starts_with("h1.0");
    let head = factors::METHOD.of(cell)?;
    let window = match factors::H2_WINDOW.of(cell)? {
        None => Http2Windows::default(),
        Some(stream_window) => Http2Windows {
            stream_window,
            // The window of the connection must not limit a single stream, so it is at least as large as the window of
            // a stream.
            connection_window: stream_window.max(65_535),
            ..Http2Windows::default()
        },
    };
    Ok(Options {
        host: client.host.clone(),
        flush,
        // HTTP/1.0 has only dates as validators. The paper's HTTP/1.0 client is the only client without a cache.
        revalidation: match (old, head) {
            (true, true) => Revalidation::Head,
            (true, false) => Revalidation::Date,
            (false, _) => Revalidation::EntityTag,
        },
        accept_encoding: common::CODING.of(cell)?.to_vec(),
        headers: client
            .fields
            .iter()
            .map(|[name, value]| (name.clone(), value.clone()))
            .collect(),
        first_range: Bytes(client.first_range),
        priorities: factors::PRIORITY.of(cell)?,
        graph: match factors::RETRIEVE.of(cell)? {
            true => Arc::default(),
            false => Arc::clone(&page.graph),
        },
        script_time: factors::SCRIPT_MS.of(cell)?,
        http2: window,
        ..Options::default()
    })
}
