//! The factors of all kinds of studies.

use fathometer_analysis::selection::{COPY as COPY_NAME, FIRST_COPY};
use fathometer_http::driver::{Policy, Visit};
use fathometer_model::ContentCoding;
use fathometer_quic_sockets::UdpOffload;

use super::factor::{AnyFactor, Factor, parsed};

/// The factors that all kinds of studies have.
pub(super) static FACTORS: &[&dyn AnyFactor] = &[
    &POLICY,
    &WORKLOAD,
    &PATH,
    &ERA,
    &SERVER,
    &CODING,
    &VISIT,
    &UDP_OFFLOAD,
    &COPY,
];

/// How the client uses connections.
pub(super) static POLICY: Factor<Policy> = Factor::text(
    "policy",
    "How the client uses connections.",
    &[
        "h1.0",
        "h1.0x4",
        "h1.0-keepalive",
        "h1.1",
        "h1.1x6-tls",
        "h1.1-pipeline",
        "h1.1-early-close",
        "h2",
        "h2c",
        "h2-push",
        "h2-sharded",
        "h3",
        "h3-alt-svc",
        "package",
    ],
    parsed,
);

/// The workload. A run checks the level when it loads the workload. The same applies to [`PATH`], [`ERA`] and
/// [`SERVER`].
static WORKLOAD: Factor<String> = Factor::text(
    "workload",
    "The files that are served and requested.",
    &[],
    named,
);

static PATH: Factor<String> = Factor::text(
    "path",
    "The path profile: a name, or the path of a file.",
    &[],
    named,
);

static ERA: Factor<String> = Factor::text(
    "era",
    "The TCP settings of both hosts: a name, or the path of a file.",
    &[],
    named,
);

static SERVER: Factor<String> = Factor::text(
    "server",
    "The server under test: a name, or the path of a file or folder.",
    &[],
    named,
);

/// The content codings that the client accepts.
pub(super) static CODING: Factor<&[ContentCoding]> = Factor::words(
    "coding",
    "Content coding that the client of a page study accepts.",
    &[
        ("identity", &[]),
        ("deflate", &[ContentCoding::Deflate]),
        ("gzip", &[ContentCoding::Gzip]),
    ],
);

/// Whether the client has visited the page before.
pub(super) static VISIT: Factor<Visit> = Factor::words(
    "visit",
    "Page studies: a visit with an empty cache, or the validation of a page that is cached.",
    &[
        ("first", Visit::First),
        ("revalidate", Visit::Revalidate),
        ("revisit", Visit::Revalidate),
    ],
);

/// The UDP offloads of both sides.
pub(super) static UDP_OFFLOAD: Factor<UdpOffload> = Factor::words(
    "udp_offload",
    "HTTP/3: UDP offloads of both sides.",
    &[
        (UdpOffload::On.name(), UdpOffload::On),
        (UdpOffload::Send.name(), UdpOffload::Send),
        (UdpOffload::Receive.name(), UdpOffload::Receive),
        (UdpOffload::Off.name(), UdpOffload::Off),
    ],
)
.or("on");

/// A label without effect. Cells that differ only in this label are equal, so they show the effect of noise on
/// verdicts.
static COPY: Factor<()> = Factor::words(
    COPY_NAME,
    "A label that changes nothing: A/A tests compare the copies `a` and `b` of a cell.",
    &[(FIRST_COPY, ()), ("b", ())],
)
.or(FIRST_COPY);

fn named(level: &str) -> Result<String, String> {
    match level.is_empty() {
        true => Err("it must be a name or a path".to_owned()),
        false => Ok(level.to_owned()),
    }
}
