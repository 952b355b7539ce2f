//! Predicts the packets and load times of the site's pages over a network path, untreated and treated, with the models
//! in virtual time.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fathometer_files::site_folder;
use fathometer_http::driver::{Options, Policy};
use fathometer_lab::data;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Demands};
use fathometer_model::{Body, ContentCoding, File, Site};
use fathometer_path::Profile;
use fathometer_sys::Clock;
use fathometer_tcp::Settings;
use fathometer_virtual_lab::{HostTimes, Scenario, Spread, predict_spread};
use serde::Serialize;

use crate::page_files::JoinedSite;
use crate::treatment::USUAL;
use crate::{Failure, Options as SiteOptions, usage};

/// The largest site whose pages are predicted, in bytes. The simulated origin has the whole site in memory.
const MOST_BYTES: u64 = 512 << 20;
/// The time limit of a retrieval.
const DEADLINE: Duration = Duration::from_secs(3600);

/// The predicted costs of a page on a path.
#[derive(Debug, Serialize)]
pub struct PagePrediction {
    /// The page's path in the site.
    pub page: String,
    /// The name of the network path.
    pub path: String,
    /// The connection policy.
    pub policy: String,
    /// The treatment of the site: `as it is`, a coding, or a kind of joining with a coding.
    pub treatment: String,
    /// Seconds until the page is complete; absent if it was not complete within an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The shortest and the longest time in seconds, over the phases of the hosts' timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_range: Option<[f64; 2]>,
    /// Packets from the client.
    pub packets_up: u64,
    /// Packets from the server.
    pub packets_down: u64,
    /// The bytes of all packets, including IP and TCP headers.
    pub wire_bytes: u64,
    /// The reasons why the prediction is less certain.
    pub extrapolates: Vec<String>,
}

/// Checks the options before the site is treated.
pub fn check(options: &SiteOptions) -> Result<(), Failure> {
    if options.paths.is_empty() {
        return Ok(());
    }
    if !options.site.is_dir() {
        return Err(usage(
            "--path needs the folder of a site; a list or an archive has no paths that a server could serve",
        ));
    }
    profiles(options).map(drop)
}

fn profiles(options: &SiteOptions) -> Result<Vec<Profile>, Failure> {
    let load = |name: &String| -> Result<Profile, Failure> {
        let text = data::load("paths", "path profile", name)?;
        Ok(Profile::from_toml(&text, name)?)
    };
    options.paths.iter().map(load).collect()
}

/// A site after a treatment.
struct Treated {
    name: String,
    site: Arc<Site>,
    is_coded: bool,
    /// The files that differ from the coded site; `None` if all files may differ.
    changed: Option<HashSet<PathBuf>>,
}

impl Treated {
    /// Returns whether the page may differ from the page of the coded site.
    fn changes(&self, page: &str) -> bool {
        let changed = self.changed.as_ref();
        changed.is_none_or(|changed| changed.contains(&site_folder::name_of(page)))
    }
}

/// Predicts the pages of the site over the paths in the options, including the pages whose files are joined.
pub fn predict_pages(
    options: &SiteOptions,
    bytes: u64,
    joined: &[JoinedSite],
) -> Result<Vec<PagePrediction>, Failure> {
    if options.paths.is_empty() {
        return Ok(Vec::new());
    }
    if bytes > MOST_BYTES {
        let most = MOST_BYTES >> 20;
        return Err(usage(format!(
            "--path needs the site in memory, at most {most} MiB; use a smaller folder"
        )));
    }
    let site = site_folder::read(&options.site)?;
    let mut pages: Vec<String> = site.files.iter().map(|file| file.path.clone()).collect();
    pages.retain(|path| is_page(path));
    pages.truncate(options.pages);
    let sites = treated_sites(&site, joined)?;
    let mut predictions = Vec::new();
    for profile in profiles(options)? {
        for policy in &options.policies {
            for treated in &sites {
                let scenario = scenario(&profile, *policy, treated)?;
                for page in pages.iter().filter(|page| treated.changes(page)) {
                    let scenario = Scenario {
                        page: page.clone(),
                        ..scenario.clone()
                    };
                    let spread = predict_spread(&scenario)
                        .map_err(|unsupported| usage(unsupported.to_string()))?;
                    predictions.push(row(&scenario, &treated.name, &spread));
                }
            }
        }
    }
    // Groups the treatments of each page.
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

/// Creates the sites to compare: untreated, coded, and with joined files and coded.
fn treated_sites(site: &Site, joined: &[JoinedSite]) -> Result<Vec<Treated>, Failure> {
    let mut coded = site.clone();
    coded.files.iter_mut().try_for_each(code)?;
    let mut sites = vec![
        Treated {
            name: "as it is".to_owned(),
            site: Arc::new(site.clone()),
            is_coded: false,
            changed: None,
        },
        Treated {
            name: USUAL.to_string(),
            site: Arc::new(coded.clone()),
            is_coded: true,
            changed: None,
        },
    ];
    let names = site
        .files
        .iter()
        .map(|file| site_folder::name_of(&file.path));
    let places: HashMap<PathBuf, usize> = names.zip(0..).collect();
    for joined in joined {
        let mut site = coded.clone();
        let mut changed = HashSet::new();
        for (place, content) in &joined.files {
            let target = place.find('/').map_or("/", |slash| &place[slash..]);
            let name = site_folder::name_of(target);
            let mut file = File {
                path: target.to_owned(),
                content_type: site_folder::media_type(&name).into(),
                body: Body::from(content.as_slice()),
                encoded: Vec::new(),
                last_modified: site.files.first().map_or(0, |file| file.last_modified),
            };
            code(&mut file)?;
            match places.get(&name) {
                Some(&index) => {
                    file.path.clone_from(&site.files[index].path);
                    site.files[index] = file;
                }
                None => site.files.push(file),
            }
            changed.insert(name);
        }
        sites.push(Treated {
            name: format!("{}, {USUAL}", joined.name),
            site: Arc::new(site),
            is_coded: true,
            changed: Some(changed),
        });
    }
    Ok(sites)
}

/// Encodes the file in advance if this makes it smaller, like a server with precompressed files.
fn code(file: &mut File) -> Result<(), Failure> {
    let content = file.body.bytes();
    let bytes = USUAL.encode(&content)?;
    let is_smaller = bytes.len() < content.len();
    file.encoded.clear();
    if is_smaller {
        file.encoded.push((ContentCoding::Gzip, Body::from(bytes)));
    }
    Ok(())
}

/// Creates the scenario: our origin as `fathometer serve` runs it, and the client of the studies, with present-day TCP.
fn scenario<'p>(
    profile: &'p Profile,
    policy: Policy,
    treated: &Treated,
) -> Result<Scenario<'p>, Failure> {
    let definition = Definition::load("embedded")?;
    let Some(embedded) = &definition.embedded else {
        return Err("the server definition `embedded` has no section [embedded]".into());
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
    let origin =
        server::embedded_origin(&definition.name, embedded, &treated.site, Clock::start())?;
    Ok(Scenario {
        path: profile,
        client: Settings::today(profile.mtu),
        server: Settings::today(profile.mtu),
        hosts: HostTimes::LABORATORY,
        policy,
        options: Options {
            accept_encoding: match treated.is_coded {
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

/// Writes the predictions, with one line for each page, path, policy and treatment.
pub fn write_table(predictions: &[PagePrediction], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if predictions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\npredicted: packets and seconds of a first visit with today's TCP, from our origin (docs/predicted-seconds.md)\n\
         {:<10} {:<10} {:>9} {:>11}  {:<30} page",
        "path", "policy", "packets", "seconds", "treatment"
    )?;
    for one in predictions {
        let packets = one.packets_up + one.packets_down;
        let seconds = one
            .seconds
            .map_or("-".to_owned(), |seconds| format!("{seconds:.3}"));
        writeln!(
            out,
            "{:<10} {:<10} {packets:>9} {seconds:>11}  {:<30} {}",
            one.path, one.policy, one.treatment, one.page
        )?;
        if !one.extrapolates.is_empty() {
            writeln!(out, "    extrapolates: {}", one.extrapolates.join("; "))?;
        }
    }
    Ok(())
}
