//! Packets and seconds of the site's pages over a path, as they are and coded, by the models in virtual time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer_content::Coding;
use fathometer_files::site_folder;
use fathometer_http::driver::{Options, Policy};
use fathometer_lab::data;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Demands};
use fathometer_model::{Body, ContentCoding, Site};
use fathometer_path::Profile;
use fathometer_sys::Clock;
use fathometer_tcp::Settings;
use fathometer_virtual_lab::{HostTimes, Scenario, Spread, predict_spread};
use serde::Serialize;

use super::super::{Failure, usage};
use super::ContentArguments;

/// Bytes of a site above which no pages are predicted: the origin of the prediction holds it in memory.
const MOST_BYTES: u64 = 512 << 20;
/// The coding of the treated site: the usual setting of servers.
const CODING: Coding = Coding::Gzip(6);
/// The longest retrieval.
const DEADLINE: Duration = Duration::from_secs(3600);

/// What a page takes on a path.
#[derive(Debug, Serialize)]
pub struct PagePrediction {
    /// The page's path in the site.
    pub page: String,
    /// The name of the network path.
    pub path: String,
    /// The connection policy.
    pub policy: String,
    /// The treatment of the site: `as it is`, or a coding.
    pub treatment: String,
    /// Seconds until the page is complete; absent if it was not complete within an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The least and the greatest seconds over the phases of the hosts' timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_range: Option<[f64; 2]>,
    /// Packets from the client.
    pub packets_up: u64,
    /// Packets from the server.
    pub packets_down: u64,
    /// Bytes of all packets, with the headers of IP and TCP.
    pub wire_bytes: u64,
    /// Why the prediction is less certain.
    pub extrapolates: Vec<String>,
}

/// Checks the arguments before the site is treated.
pub fn check(arguments: &ContentArguments) -> Result<(), Failure> {
    if arguments.path.is_empty() {
        return Ok(());
    }
    if !arguments.site.is_dir() {
        return Err(usage(
            "--path needs the folder of a site: a list or an archive has no paths that a server could serve",
        ));
    }
    profiles(arguments).map(drop)
}

fn profiles(arguments: &ContentArguments) -> Result<Vec<Profile>, Failure> {
    let load = |name: &String| -> Result<Profile, Failure> {
        let text = data::load("paths", "path profile", name)?;
        Ok(Profile::from_toml(&text, name)?)
    };
    arguments.path.iter().map(load).collect()
}

/// Predicts the pages of the site over the paths of the arguments.
pub fn predict_pages(
    arguments: &ContentArguments,
    bytes: u64,
) -> Result<Vec<PagePrediction>, Failure> {
    if arguments.path.is_empty() {
        return Ok(Vec::new());
    }
    if bytes > MOST_BYTES {
        let most = MOST_BYTES >> 20;
        return Err(usage(format!(
            "--path holds the site in memory, at most {most} MiB; name the folder of fewer files"
        )));
    }
    let site = site_folder::read(&arguments.site)?;
    let coded = coded(&site)?;
    let mut pages: Vec<String> = site.files.iter().map(|file| file.path.clone()).collect();
    pages.retain(|path| is_page(path));
    pages.truncate(arguments.pages);
    let sites = [("as it is".to_owned(), site), (CODING.to_string(), coded)];
    let sites = sites.map(|(name, site)| (name, Arc::new(site)));
    let mut predictions = Vec::new();
    for profile in profiles(arguments)? {
        for policy in &arguments.policy {
            for (treatment, site) in &sites {
                let treated = *treatment != sites[0].0;
                let scenario = scenario(&profile, *policy, site, treated)?;
                for page in &pages {
                    let scenario = Scenario {
                        page: page.clone(),
                        ..scenario.clone()
                    };
                    let spread = predict_spread(&scenario)
                        .map_err(|unsupported| usage(unsupported.to_string()))?;
                    predictions.push(row(&scenario, treatment, &spread));
                }
            }
        }
    }
    // The treatments of a page follow each other.
    predictions.sort_by(|one, other| {
        let key = |row: &PagePrediction| (row.path.clone(), row.policy.clone(), row.page.clone());
        key(one).cmp(&key(other))
    });
    Ok(predictions)
}

fn is_page(path: &str) -> bool {
    let extension = Path::new(path).extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("html") || extension.eq_ignore_ascii_case("htm")
}

/// The site with every file that this makes smaller coded in advance, as a server with stored codings has it.
fn coded(site: &Site) -> Result<Site, Failure> {
    let mut coded = site.clone();
    for file in &mut coded.files {
        let content = file.body.bytes();
        let bytes = CODING.encode(&content)?;
        let is_smaller = bytes.len() < content.len();
        file.encoded.clear();
        if is_smaller {
            file.encoded.push((ContentCoding::Gzip, Body::from(bytes)));
        }
    }
    Ok(coded)
}

/// Our origin as `fathometer serve` runs it, and the client of the studies, with today's TCP.
fn scenario<'p>(
    profile: &'p Profile,
    policy: Policy,
    site: &Arc<Site>,
    treated: bool,
) -> Result<Scenario<'p>, Failure> {
    let definition = Definition::load("embedded")?;
    let Some(embedded) = &definition.embedded else {
        return Err("the server definition `embedded` has no part [embedded]".into());
    };
    let demands = Demands {
        max_requests: None,
        careless_close: false,
        nodelay: true,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    };
    let http1 = server::embedded_config(embedded, demands);
    let http2 = server::http2_config(&http1);
    let origin = server::embedded_origin(&definition.name, embedded, site, Clock::start())?;
    Ok(Scenario {
        path: profile,
        client: Settings::today(profile.mtu),
        server: Settings::today(profile.mtu),
        hosts: HostTimes::LABORATORY,
        policy,
        options: Options {
            accept_encoding: match treated {
                true => vec![ContentCoding::Gzip],
                false => Vec::new(),
            },
            ..Options::default()
        },
        page: String::new(),
        origin,
        http1: Arc::new(http1),
        http2: Arc::new(http2),
        deadline: DEADLINE,
    })
}

fn row(scenario: &Scenario<'_>, treatment: &str, spread: &Spread) -> PagePrediction {
    let median = &spread.median;
    let range = spread.least.zip(spread.greatest);
    PagePrediction {
        page: scenario.page.clone(),
        path: scenario.path.name.clone(),
        policy: scenario.policy.to_string(),
        treatment: treatment.to_owned(),
        seconds: median.page_time.map(|time| time.as_secs_f64()),
        seconds_range: range.map(|(least, greatest)| [least.as_secs_f64(), greatest.as_secs_f64()]),
        packets_up: median.up.count,
        packets_down: median.down.count,
        wire_bytes: (median.up.bytes + median.down.bytes).0,
        extrapolates: median
            .extrapolations
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// Writes the predictions, a line for each page, path and policy.
pub fn write_table(predictions: &[PagePrediction], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if predictions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\npredicted: packets and seconds of a first visit with today's TCP, from our origin (docs/predicted-seconds.md)\n\
         {:<10} {:<10} {:>21}  {:>21}  page",
        "path",
        "policy",
        "as it is",
        CODING.to_string()
    )?;
    for pair in predictions.chunk_by(|one, other| {
        (&one.path, &one.policy, &one.page) == (&other.path, &other.policy, &other.page)
    }) {
        let Some(first) = pair.first() else { continue };
        write!(out, "{:<10} {:<10}", first.path, first.policy)?;
        for one in pair {
            let packets = one.packets_up + one.packets_down;
            match one.seconds {
                Some(seconds) => write!(out, " {packets:>9} {seconds:>9.3} s ")?,
                None => write!(out, " {packets:>9}          - ")?,
            }
        }
        writeln!(out, " {}", first.page)?;
        for one in pair.iter().filter(|one| !one.extrapolates.is_empty()) {
            let why = one.extrapolates.join("; ");
            writeln!(out, "    extrapolates ({}): {why}", one.treatment)?;
        }
    }
    Ok(())
}
