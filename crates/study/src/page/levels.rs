//! The meaning of the levels of a page study's factors.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    Bundle, FileKind, Flush, Http2Windows, Options, PageList, Policy, Priorities, Revalidation,
    Visit,
};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Format, Formats, Making, Packages};
use fathometer_model::quantity::TimeSpan;
use fathometer_model::{Bytes, ContentCoding};
use fathometer_package::Version as Package;
use fathometer_tls::Version;

use super::super::replicate::{ReplicateError, Setup, Shared, one_of, parsed};
use super::super::spec::Cell;
use super::site::{PageSite, Version as SiteVersion};
use fathometer_lab::server::Demands;
use fathometer_quic_sockets::UdpOffload;

/// The parsed levels of a cell.
pub(super) struct Levels<'a> {
    pub(super) page: &'a PageSite,
    /// The sets of files that are retrieved one after another, if the workload has no page.
    pub(super) sets: Vec<Arc<PageList>>,
    /// The site at the time of the measured visit, which may differ from that of the earlier visit.
    pub(super) site: &'a SiteVersion,
    /// Whether the visit starts with a cold cache: none of the requested files is in the server's memory.
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
}

/// The TLS settings of connections, if the policy uses TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsLevel {
    pub(super) version: Version,
    /// Whether the client has a session of an earlier visit to resume.
    pub(super) resumes: bool,
    /// Whether it sends its first requests as early data (0-RTT).
    pub(super) early_data: bool,
}

impl TlsLevel {
    const fn new(version: Version, resumes: bool, early_data: bool) -> TlsLevel {
        TlsLevel {
            version,
            resumes,
            early_data,
        }
    }
}

/// Which files of a page our origin announces early, or pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Companions {
    Nothing,
    Critical,
    All,
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
    pub(super) fn of(setup: &Setup<'_>, shared: &Shared<'a>) -> Result<Levels<'a>, ReplicateError> {
        let cell = setup.cell;
        let page = shared
            .pages
            .get(cell.level("workload"))
            .expect("the pages of all cells were made");
        let policy: Policy = parsed(cell, "policy")?;
        let visit = one_of(
            cell,
            "visit",
            &[
                ("first", Visit::First),
                ("revalidate", Visit::Revalidate),
                ("revisit", Visit::Revalidate),
            ],
        )?;
        let sets = match cell.level("sets") {
            "" => 1,
            _ => parsed(cell, "sets")?,
        };
        let sets = page.sets_of(setup.replicate, sets);
        let changed = match cell.level("changed") {
            "" => 0,
            _ => parsed(cell, "changed")?,
        };
        let site = page.version(changed).ok_or_else(|| ReplicateError::Level {
            factor: "changed",
            level: cell.level("changed").to_owned(),
            reason: "the site was not made so".to_owned(),
        })?;
        let limit = cell.level("limit");
        // Pacing imitates the machines of the paper's time, so the era `today` is not slowed down.
        let period_pace = optional(cell, "pace", &[("period", true), ("none", false)], false)?
            && cell.level("era") != "today";
        let (service_time, connection_time) = match &setup.definition.embedded {
            Some(embedded) if period_pace => embedded.pace(cell.level("path")),
            _ => Default::default(),
        };
        let companions = |factor, default| {
            let known = [
                ("none", Companions::Nothing),
                ("critical", Companions::Critical),
                ("all", Companions::All),
            ];
            optional(cell, factor, &known, default).map(|chosen| chosen.of(page))
        };
        Ok(Levels {
            page,
            site,
            cold: optional(
                cell,
                "page_cache",
                &[("cold", true), ("warm", false)],
                false,
            )?,
            packages: packages(cell, policy.bundle, &sets)?,
            sets,
            policy,
            options: options(setup, shared, policy, page)?,
            visit,
            demands: Demands {
                max_requests: match limit {
                    "" | "none" => None,
                    _ => Some(parsed(cell, "limit")?),
                },
                careless_close: optional(cell, "close", &[("half", false), ("full", true)], false)?,
                nodelay: optional(cell, "nodelay", &[("on", true), ("off", false)], true)?,
                quick_ack: setup.era.server_quick_ack,
                service_time,
                connection_time,
            },
            push: match policy.push {
                true => companions("push", Companions::All)?,
                false => Plan::default(),
            },
            early_hints: companions("hints", Companions::Nothing)?,
            tls: optional(
                cell,
                "tls",
                &[
                    ("1.3", TlsLevel::new(Version::Tls13, false, false)),
                    ("1.3-resumed", TlsLevel::new(Version::Tls13, true, false)),
                    ("1.3-early", TlsLevel::new(Version::Tls13, true, true)),
                    ("1.2", TlsLevel::new(Version::Tls12, false, false)),
                    ("1.2-resumed", TlsLevel::new(Version::Tls12, true, false)),
                ],
                TlsLevel::new(Version::Tls13, false, false),
            )?,
            initial_window: match cell.level("iw") {
                "" | "era" => None,
                _ => Some(parsed(cell, "iw")?),
            },
            congestion: match cell.level("congestion") {
                "" | "era" => None,
                algorithm => Some(algorithm.to_owned()),
            },
            quick_ack: optional(cell, "quickack", &[("on", Some(true)), ("off", None)], None)?,
            udp_offload: optional(
                cell,
                "udp_offload",
                &UdpOffload::ALL.map(|offload| (offload.name(), offload)),
                UdpOffload::On,
            )?,
        })
    }

    /// Levels for the retrieval that fills a cache or a session store beforehand: a plain policy at full speed,
    /// on the original site.
    pub(super) fn plain(&self) -> Levels<'a> {
        Levels {
            site: &self.page.first,
            sets: self.sets.clone(),
            packages: self.packages.clone(),
            cold: false,
            policy: Policy {
                pipeline: None,
                ranges: false,
                // A ticket is valid for one connection: open as many connections as will resume one.
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

/// The packages of the server: only the kind that this policy requests.
fn packages(
    cell: &Cell,
    bundle: Option<Bundle>,
    sets: &[Arc<PageList>],
) -> Result<Packages, ReplicateError> {
    let making = optional(
        cell,
        "packages",
        &[("made", Making::Made), ("on-the-fly", Making::OnTheFly)],
        Making::Made,
    )?;
    let (making, format) = match bundle {
        None => return Ok(Packages::default()),
        // What the client lacks is known only from its request.
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
        // Files do not change during a replicate, so packages need no check.
        fresh: Duration::from_secs(3600),
        ..Packages::default()
    })
}

fn options(
    setup: &Setup<'_>,
    shared: &Shared<'_>,
    policy: Policy,
    page: &PageSite,
) -> Result<Options, ReplicateError> {
    let cell = setup.cell;
    let client = &shared.study.client;
    let mut flush = Flush::default();
    if !cell.level("flush").is_empty() {
        flush = parsed(cell, "flush")?;
    }
    if !cell.level("buffer").is_empty() {
        flush.buffer = Bytes(parsed(cell, "buffer")?);
    }
    let old = policy.to_string().starts_with("h1.0");
    let head = optional(
        cell,
        "method",
        &[("head", true), ("conditional", false)],
        false,
    )?;
    let window = match cell.level("h2_window") {
        "" | "default" => Http2Windows::default(),
        _ => {
            let stream_window = parsed(cell, "h2_window")?;
            Http2Windows {
                stream_window,
                // The connection's window must not limit a single stream.
                connection_window: stream_window.max(65_535),
                ..Http2Windows::default()
            }
        }
    };
    Ok(Options {
        host: client.host.clone(),
        flush,
        // HTTP/1.0 has only dates as validators; the paper's HTTP/1.0 client is the only one without a cache.
        revalidation: match (old, head) {
            (true, true) => Revalidation::Head,
            (true, false) => Revalidation::Date,
            (false, _) => Revalidation::EntityTag,
        },
        accept_encoding: one_of(
            cell,
            "coding",
            &[
                ("identity", vec![]),
                ("deflate", vec![ContentCoding::Deflate]),
                ("gzip", vec![ContentCoding::Gzip]),
            ],
        )?,
        headers: client
            .fields
            .iter()
            .map(|[name, value]| (name.clone(), value.clone()))
            .collect(),
        first_range: Bytes(client.first_range),
        priorities: match cell.level("priority") {
            "" => Priorities::None,
            _ => parsed(cell, "priority")?,
        },
        graph: Arc::clone(&page.graph),
        script_time: match cell.level("script_ms") {
            "" => Duration::ZERO,
            level => TimeSpan::from_milliseconds(parsed(cell, "script_ms")?)
                .map_err(|error| ReplicateError::Level {
                    factor: "script_ms",
                    level: level.to_owned(),
                    reason: error.to_string(),
                })?
                .into(),
        },
        http2: window,
        ..Options::default()
    })
}

/// Like [`one_of`], for an optional factor.
fn optional<T: Clone>(
    cell: &Cell,
    factor: &'static str,
    known: &[(&str, T)],
    default: T,
) -> Result<T, ReplicateError> {
    match cell.level(factor) {
        "" => Ok(default),
        _ => one_of(cell, factor, known),
    }
}
