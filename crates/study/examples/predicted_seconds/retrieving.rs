//! Measures a retrieval in the laboratory, and predicts it with the models.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Options, PageDriver, Policy, ValidatorCache, Visit};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::Packages;
use fathometer_lab::era::Era;
use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Access, Content, Demands, Storage};
use fathometer_lab::wire::WireOptions;
use fathometer_load::client::{self, ClientSockets};
use fathometer_model::Seed;
use fathometer_path::Profile;
use fathometer_sys::{Clock, SocketOptions};
use fathometer_tcp::Settings;
use fathometer_virtual_lab::{HostTimes, Scenario, predict_spread};

use crate::Failure;
use crate::input::{Arguments, Page};

/// The time limit of a retrieval.
pub(crate) const DEADLINE: Duration = Duration::from_secs(900);
/// The rate, in bit/s, below which retrievals of a path run in parallel: the processor does not limit such retrievals.
pub(crate) const SLOW_BITS: u64 = 1_000_000;
/// The time and the packets of a retrieval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) seconds: f64,
    pub(crate) up: u64,
    pub(crate) down: u64,
}

/// The set-up that all retrievals share.
pub(crate) struct Bench {
    pub(crate) arguments: Arguments,
    pub(crate) era: Era,
    pub(crate) definition: Definition,
}

impl Bench {
    pub(crate) fn demands(&self) -> Demands {
        Demands {
            max_requests: None,
            careless_close: false,
            nodelay: true,
            quick_ack: self.era.server_quick_ack,
            service_time: Duration::ZERO,
            connection_time: Duration::ZERO,
        }
    }

    /// Runs a retrieval in the laboratory. An error is the reason why the retrieval is invalid.
    pub(crate) fn measure(
        &self,
        page: &Page,
        profile: &Profile,
        policy: Policy,
        seed: u64,
    ) -> Result<Figures, Failure> {
        let clock = Clock::start();
        let mut options = WireOptions::new(Seed(seed));
        options.clock = clock;
        options.capture = self.arguments.capture.clone();
        if is_slow(profile) {
            options.spin = Duration::ZERO;
        }
        let lab = Lab::start(profile, &options, |side| self.era.settings(side, None))?;
        let content = Content {
            site: &page.site,
            folder: Path::new(""),
            push: &Plan::default(),
            early_hints: &Plan::default(),
            packages: &Packages::default(),
            storage: Storage::Memory,
        };
        let running = server::start_with_access(
            &self.definition,
            None,
            &lab.server,
            content,
            self.demands(),
            Access::Clear,
            clock,
        )?;
        let sockets = ClientSockets {
            options: SocketOptions {
                no_delay: Some(true),
                ..self.era.settings(Side::Client, None).socket
            },
            quick_ack: self.era.client_quick_ack,
            ..ClientSockets::default()
        };
        let server = SocketAddr::new(IpAddr::V4(Side::Server.ipv4()), Access::Clear.port());
        let driven = lab
            .client
            .namespace
            .run(|| -> Result<_, client::ClientError> {
                let start = clock.now();
                let mut driver = PageDriver::new(
                    policy,
                    Options::default(),
                    Visit::First,
                    page.target.clone(),
                    ValidatorCache::default(),
                    start,
                );
                client::drive(
                    &mut driver,
                    server,
                    &sockets,
                    clock,
                    start + DEADLINE,
                    &|| false,
                )?;
                Ok((start, driver.finish(clock.now())))
            })?;
        let (start, retrieval) = driven?;
        let round_trip = profile.round_trip();
        lab.settle(
            round_trip + Duration::from_millis(80),
            Duration::from_secs(15) + 4 * round_trip,
        );
        running.stop()?;
        let (certificate, validity) = lab.stop();
        if !validity.reasons.is_empty() {
            return Err(validity.reasons.join("; ").into());
        }
        if let Some((file, failure)) = retrieval.failures.first() {
            return Err(format!("{file}: {failure:?}").into());
        }
        let end = retrieval
            .milestones
            .page_complete
            .ok_or("the page is not complete")?;
        Ok(Figures {
            seconds: end.since(start).as_secs_f64(),
            up: certificate.up.packets_in,
            down: certificate.down.packets_in,
        })
    }

    /// Predicts the same retrieval: returns the median over the phases of the timers, and a text about the model's
    /// extrapolations.
    pub(crate) fn predict(
        &self,
        page: &Page,
        profile: &Profile,
        policy: Policy,
    ) -> Result<(Figures, String), Failure> {
        let embedded = self
            .definition
            .embedded
            .as_ref()
            .ok_or("the server is not the embedded origin")?;
        let http1 = server::embedded_config(embedded, self.demands());
        let http2 = server::http2_config(&http1);
        let origin =
            server::embedded_origin(&self.definition.name, embedded, &page.site, Clock::start())?;
        let scenario = Scenario {
            path: profile,
            client: Settings::today(profile.mtu),
            server: Settings::today(profile.mtu),
            hosts: HostTimes::LABORATORY,
            policy,
            options: Options::default(),
            page: page.target.clone(),
            origin,
            http1: Arc::new(http1),
            http2: Arc::new(http2),
            deadline: DEADLINE,
        };
        let prediction = predict_spread(&scenario)?.median;
        let time = prediction.page_time.ok_or("the page is not complete")?;
        let figures = Figures {
            seconds: time.as_secs_f64(),
            up: prediction.up.count,
            down: prediction.down.count,
        };
        let remarks = prediction.extrapolations.iter().map(ToString::to_string);
        Ok((figures, remarks.collect::<Vec<_>>().join("; ")))
    }
}

pub(crate) fn is_slow(profile: &Profile) -> bool {
    let rate = profile
        .down
        .rate
        .map_or(u64::MAX, |rate| rate.as_bits_per_second());
    rate < SLOW_BITS
}

/// Returns the figures with the median time.
pub(crate) fn median(figures: &[Figures]) -> Figures {
    let mut sorted = figures.to_vec();
    sorted.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    sorted[(sorted.len() - 1) / 2]
}
