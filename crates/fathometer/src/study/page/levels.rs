//! What the levels of a page study's factors mean.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    Bundle, FileKind, Flush, Http2Windows, Options, PageList, Policy, Priorities, Revalidation,
    Visit,
};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Format, Formats, Making, Packages};
use fathometer_http::package::Version as Package;
use fathometer_model::quantity::TimeSpan;
use fathometer_model::{Bytes, ContentCoding};
use fathometer_tls::Version;

use super::super::replicate::{ReplicateError, Setup, Shared, one_of, parsed};
use super::super::spec::Cell;
use super::site::{PageSite, Version as SiteVersion};
use crate::quic::UdpOffload;
use crate::server::Demands;

/// A cell's levels, understood.
pub(super) struct Levels<'a> {
    pub(super) page: &'a PageSite,
    /// The sets of files that are retrieved one after another, where there is no page.
    pub(super) sets: Vec<Arc<PageList>>,
    /// The site as the measured visit finds it, and as it was when the client came before.
    pub(super) site: &'a SiteVersion,
    /// Whether nothing of what is asked for is in the server's memory when the visit begins.
    pub(super) cold: bool,
    /// What the server makes of the files together.
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

/// How connections are protected, where the policy wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsLevel {
    pub(super) version: Version,
    /// Whether the client has been there before and kept its session.
    pub(super) resumes: bool,
    /// Whether it sends its first requests along with the handshake.
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

/// What our origin tells a client of before it asks, or pushes.
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
        // Of this time's machines nobody has to be slowed down.
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

    /// The levels by which a cache, or a store of sessions, is filled: plainly, and as fast as it
    /// goes, from the site as it was at first.
    pub(super) fn plain(&self) -> Levels<'a> {
        Levels {
            site: &self.page.first,
            sets: self.sets.clone(),
            packages: self.packages.clone(),
            cold: false,
            policy: Policy {
                pipeline: None,
                ranges: false,
                // A ticket is good for one connection: as many are wanted as will be resumed.
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

/// What the server makes of the files together: what this policy asks for, and nothing else.
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
        // What a client lacks is known when it asks.
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
        // Nothing changes while a replicate lasts: what was made is not to be looked at again.
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
                // One stream is not to be held up by the others' share.
                connection_window: stream_window.max(65_535),
                ..Http2Windows::default()
            }
        }
    };
    Ok(Options {
        host: client.host.clone(),
        flush,
        // HTTP/1.0 knows dates alone; only the paper's HTTP/1.0 client has no cache.
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

/// As [`one_of`], of a factor that a study need not have.
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
