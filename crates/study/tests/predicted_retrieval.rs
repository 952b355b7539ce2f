//! Compares the model of TCP with kernels: the same retrieval in virtual time and in the laboratory.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Options, PageDriver, Policy, ValidatorCache, Visit};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::Packages;
use fathometer_lab::data;
use fathometer_lab::era::Era;
use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Access, Content, Demands, Storage};
use fathometer_lab::wire::WireOptions;
use fathometer_load::client::{self, ClientSockets};
use fathometer_model::{Body, File, Seed, Site};
use fathometer_path::Profile;
use fathometer_sys::{Clock, SocketOptions};
use fathometer_tcp::Settings;
use fathometer_virtual_lab::{HostTimes, Prediction, Scenario, predict};

/// The maximum number of attempts at a retrieval. On a busy machine, the path may be late.
const ATTEMPTS: u64 = 10;

fn site(bytes: usize) -> Arc<Site> {
    let text = b"<p>Plain text, no references.</p>\n";
    let body: Vec<u8> = text.iter().copied().cycle().take(bytes).collect();
    Arc::new(Site {
        name: "one-page".to_owned(),
        files: vec![File {
            path: "/page.html".to_owned(),
            content_type: "text/html".into(),
            body: Body::from(body),
            encoded: Vec::new(),
            last_modified: 0,
        }],
        pages: Vec::new(),
    })
}

fn demands() -> Demands {
    Demands {
        max_requests: None,
        careless_close: false,
        nodelay: true,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    }
}

struct Measured {
    seconds: f64,
    down: u64,
}

/// Runs the retrieval with kernels. Returns `None` if the path was late.
fn measure(site: &Arc<Site>, profile: &Profile, policy: Policy, seed: u64) -> Option<Measured> {
    let era = Era::load("today").unwrap();
    let definition = Definition::load("embedded").unwrap();
    let clock = Clock::start();
    let mut options = WireOptions::new(Seed(seed));
    options.clock = clock;
    let lab = Lab::start(profile, &options, |side| era.settings(side, None)).unwrap();
    let content = Content {
        site,
        folder: Path::new(""),
        push: &Plan::default(),
        early_hints: &Plan::default(),
        packages: &Packages::default(),
        storage: Storage::Memory,
    };
    let running = server::start_with_access(
        &definition,
        None,
        &lab.server,
        content,
        demands(),
        Access::Clear,
        clock,
    )
    .unwrap();
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(true),
            ..SocketOptions::default()
        },
        ..ClientSockets::default()
    };
    let server = SocketAddr::new(IpAddr::V4(Side::Server.ipv4()), Access::Clear.port());
    let (start, retrieval) = lab
        .client
        .namespace
        .run(|| {
            let start = clock.now();
            let page = "/page.html".to_owned();
            let cache = ValidatorCache::default();
            let mut driver =
                PageDriver::new(policy, Options::default(), Visit::First, page, cache, start);
            let deadline = start + Duration::from_secs(60);
            client::drive(&mut driver, server, &sockets, clock, deadline, &|| false).unwrap();
            (start, driver.finish(clock.now()))
        })
        .unwrap();
    lab.settle(Duration::from_millis(200), Duration::from_secs(15));
    running.stop().unwrap();
    let (certificate, validity) = lab.stop();
    let end = retrieval.milestones.page_complete.unwrap();
    validity.reasons.is_empty().then(|| Measured {
        seconds: end.since(start).as_secs_f64(),
        down: certificate.down.packets_in,
    })
}

fn predicted(site: &Arc<Site>, profile: &Profile, policy: Policy) -> Prediction {
    let definition = Definition::load("embedded").unwrap();
    let embedded = definition.embedded.as_ref().unwrap();
    let http1 = server::embedded_config(embedded, demands());
    let http2 = server::http2_config(&http1);
    let scenario = Scenario {
        path: profile,
        client: Settings::today(profile.mtu),
        server: Settings::today(profile.mtu),
        hosts: HostTimes::default(),
        policy,
        options: Options::default(),
        page: "/page.html".to_owned(),
        origin: server::embedded_origin("embedded", embedded, site, Clock::start()).unwrap(),
        http1: Arc::new(http1),
        http2: Arc::new(http2),
        deadline: Duration::from_secs(60),
    };
    predict(&scenario).unwrap()
}

#[test]
fn kernels_send_the_packets_of_the_model_and_are_never_faster() {
    let text = data::load("paths", "path profile", "wan").unwrap();
    let profile = Profile::from_toml(&text, "wan").unwrap();
    // The responses have three windows, more than four windows, and HTTP/2 frames. Each retrieval takes a second or two
    // with kernels.
    for (bytes, policy) in [(40_000, "h1.1"), (200_000, "h1.1"), (40_000, "h2c")] {
        let (site, policy) = (site(bytes), policy.parse().unwrap());
        let predicted = predicted(&site, &profile, policy);
        let measured = (0..ATTEMPTS).find_map(|seed| measure(&site, &profile, policy, seed));
        let Some(measured) = measured else {
            // The path was late in every attempt, so there is no valid measurement.
            continue;
        };
        // If a server waits 40 ms for a processor, its kernel acknowledges the request or the FIN in a separate packet.
        let packets = predicted.down.count.saturating_sub(2)..=predicted.down.count + 2;
        assert!(
            packets.contains(&measured.down),
            "{bytes} bytes by {policy}: {} packets measured, {} packets predicted",
            measured.down,
            predicted.down.count
        );
        // Without host times, the model predicts the time on infinitely fast hosts.
        let seconds = predicted.page_time.unwrap().as_secs_f64();
        assert!(
            measured.seconds > 0.999 * seconds,
            "{bytes} bytes by {policy}: {} s measured, {seconds} s predicted",
            measured.seconds
        );
    }
}

#[test]
fn a_path_with_random_loss_is_refused() {
    let text = data::load("paths", "path profile", "lossy").unwrap();
    let profile = Profile::from_toml(&text, "lossy").unwrap();
    let site = site(1000);
    let definition = Definition::load("embedded").unwrap();
    let embedded = definition.embedded.as_ref().unwrap();
    let http1 = server::embedded_config(embedded, demands());
    let scenario = Scenario {
        path: &profile,
        client: Settings::today(1500),
        server: Settings::today(1500),
        hosts: HostTimes::default(),
        policy: "h1.1".parse().unwrap(),
        options: Options::default(),
        page: "/page.html".to_owned(),
        origin: server::embedded_origin("embedded", embedded, &site, Clock::start()).unwrap(),
        http2: Arc::new(server::http2_config(&http1)),
        http1: Arc::new(http1),
        deadline: Duration::from_secs(60),
    };
    let error = predict(&scenario).unwrap_err().to_string();
    assert!(
        error.contains("random loss") && error.contains("lossy"),
        "{error}"
    );
}
