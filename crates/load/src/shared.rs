//! The state that all loops of a test share: the plan, the requests and a few counters.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fathometer_analysis::load::SequenceUse;
use fathometer_http::client::{PreparedRequest, SendError};
use fathometer_http::driver::Policy;
use fathometer_http::h1::client::is_idempotent;
use fathometer_model::Seed;
use fathometer_sys::SocketOptions;
use fathometer_workload::plan::{Choice, PageId, Plan, Script, Target, TargetId};

use super::exchange::Exchange;
use super::host_names::{host_names, without_port};
use super::quic_plan::QuicPlan;
use super::security::Security;
use super::{Limit, LoadError, Options, Share, Users, Windows};

/// State that the loops share: read-only data, and a few counters.
pub(super) struct Shared {
    pub(super) plan: std::sync::Arc<Plan>,
    pub(super) requests: Requests,
    pub(super) policy: Policy,
    /// Present if the policy has TLS.
    pub(super) tls: Option<Security>,
    /// Present if the policy has QUIC.
    pub(super) quic: Option<QuicPlan>,
    pub(super) windows: Windows,
    pub(super) address: SocketAddr,
    pub(super) sockets: SocketOptions,
    /// `TCP_QUICKACK`, set after connecting and again after each read.
    pub(super) quick_ack: Option<bool>,
    pub(super) reset_on_close: bool,
    pub(super) max_requests: Option<u32>,
    pub(super) limits: Limits,
    /// Whether users keep their pipelines full; see the [module](super).
    pub(super) fills: bool,
    /// This rank's share of the exchanges planned in the measured window, if their number is limited.
    pub(super) most: Option<u64>,
    share: Share,
    pages_seed: Seed,
    sessions_seed: Seed,
    off_seed: Seed,
    planned: Padded,
    pages: Padded,
    sessions: Padded,
    connections: Padded,
    stop: AtomicBool,
    /// Whether the machine has an unused processor for busy-waiting.
    has_spare: AtomicBool,
}

/// The time limits of exchanges and connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The longest time from the planned instant of an exchange to its end.
    pub(super) timeout: Duration,
    /// The longest time for connecting.
    pub(super) connect_timeout: Duration,
    /// The idle time after which the client closes a connection; `None`: unlimited.
    pub(super) keep_alive: Option<Duration>,
}

/// A counter on its own cache line.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Padded {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl Shared {
    pub(super) fn new(options: &Options) -> Result<Shared, LoadError> {
        let plan = &options.plan;
        if plan.targets.is_empty() {
            return Err(LoadError::EmptyPlan("targets"));
        }
        let nothing = match &plan.choice {
            Choice::Sequence(sequence) => sequence.is_empty(),
            Choice::Weighted(_) => plan.pages.is_empty(),
            Choice::Scripts(scripts) => scripts.iter().all(|script| script.steps.is_empty()),
        };
        if nothing || plan.pages.is_empty() {
            return Err(LoadError::EmptyPlan("pages"));
        }
        check_policy(options)?;
        let endless = plan.sessions.pages.is_none() && plan.sessions.off.is_none();
        let scripted = matches!(plan.choice, Choice::Scripts(_));
        Ok(Shared {
            requests: Requests::new(options)?,
            policy: options.policy,
            tls: match (options.policy.tls, &options.tls) {
                (false, _) => None,
                (true, Some(settings)) => Some(Security::new(options, settings)),
                (true, None) => {
                    return Err(LoadError::Policy {
                        policy: options.policy,
                        why: "it needs TLS, and no settings for TLS are given",
                    });
                }
            },
            quic: QuicPlan::new(options)?,
            windows: options.windows,
            address: options.address,
            sockets: SocketOptions {
                quick_ack: None,
                ..options.sockets.clone()
            },
            quick_ack: options.sockets.quick_ack,
            reset_on_close: options.reset_on_close,
            max_requests: options.max_requests.map(|most| most.max(1)),
            limits: Limits {
                timeout: options.timeout,
                connect_timeout: options.connect_timeout,
                keep_alive: options.keep_alive,
            },
            fills: is_kept_full(&options.policy)
                && endless
                && !scripted
                && !options.policy.early_close
                && largest_page(plan) == 1,
            most: match options.limit {
                Limit::Time(_) => None,
                Limit::Exchanges(most) => Some(share_of(options, most)),
            },
            share: options.share,
            pages_seed: options.seed.stream("load.pages"),
            sessions_seed: options.seed.stream("load.sessions"),
            off_seed: options.seed.stream("load.off"),
            planned: Padded::default(),
            pages: Padded::default(),
            sessions: Padded::default(),
            connections: Padded::default(),
            stop: AtomicBool::new(false),
            has_spare: AtomicBool::new(false),
            plan: options.plan.clone(),
        })
    }

    /// Returns the maximum number of unanswered requests on a connection.
    pub(super) fn depth(&self) -> u16 {
        self.policy.depth().unwrap_or(u16::MAX)
    }

    /// Returns the index of the host from which the `member`-th member of a page is requested.
    pub(super) fn host_of(&self, member: u16) -> u16 {
        member % self.policy.hosts.max(1)
    }

    /// Returns whether these exchanges are safe to repeat.
    pub(super) fn are_safe_to_repeat<'e>(
        &self,
        mut exchanges: impl Iterator<Item = &'e Exchange>,
    ) -> bool {
        exchanges.all(|exchange| {
            let target = self.target(TargetId(exchange.target()));
            is_idempotent(&target.method) && target.content.is_none()
        })
    }

    /// Takes one of the exchanges that may still be planned; returns false if none remains.
    pub(super) fn take_exchange(&self) -> bool {
        match self.most {
            None => true,
            Some(most) => {
                self.planned.0.load(Ordering::Relaxed) < most && self.planned.next() < most
            }
        }
    }

    /// Returns whether all exchanges of the test have been planned.
    pub(super) fn is_planned_out(&self) -> bool {
        self.most
            .is_some_and(|most| self.planned.0.load(Ordering::Relaxed) >= most)
    }

    /// Returns the number, in the whole test, of the next session of a closed loop.
    pub(super) fn next_session(&self) -> u64 {
        self.share.number(self.sessions.next())
    }

    /// Returns the number of the next connection.
    pub(super) fn next_connection(&self) -> u32 {
        self.connections.next() as u32
    }

    /// Returns the next page of the sequence that all users share.
    pub(super) fn next_page(&self) -> PageId {
        // A single page needs no counter, for which threads would contend.
        if let Choice::Sequence(sequence) = &self.plan.choice
            && sequence.len() == 1
        {
            return sequence[0];
        }
        self.page(self.share.number(self.pages.next()))
    }

    /// Returns the page at position `turn` of the shared sequence.
    pub(super) fn page(&self, turn: u64) -> PageId {
        match &self.plan.choice {
            Choice::Sequence(sequence) => sequence[(turn % sequence.len() as u64) as usize],
            Choice::Weighted(weights) => weights.draw(self.pages_seed, turn),
            Choice::Scripts(_) => PageId(0),
        }
    }

    /// Returns the part of the plan's sequence that was requested; `None` without a sequence, or if the sequence has
    /// one page. `ended` is the number of pages that have ended.
    pub(super) fn sequence_use(&self, ended: u64) -> Option<SequenceUse> {
        let Choice::Sequence(sequence) = &self.plan.choice else {
            return None;
        };
        // An arrival selects the page by the arrival's number, and does not advance this counter.
        let requested = self.pages.0.load(Ordering::Relaxed).max(ended);
        (sequence.len() > 1).then_some(SequenceUse {
            pages: sequence.len() as u64,
            requested,
        })
    }

    pub(super) fn target(&self, target: TargetId) -> &Target {
        &self.plan.targets[target.0 as usize]
    }

    /// Returns the script of a session, if sessions are scripted.
    pub(super) fn script(&self, session: u64) -> Option<&Script> {
        match &self.plan.choice {
            Choice::Scripts(scripts) => {
                let script = &scripts[(session % scripts.len() as u64) as usize];
                (!script.steps.is_empty()).then_some(script)
            }
            _ => None,
        }
    }

    /// Returns the number of pages of a session; `None`: unlimited.
    pub(super) fn pages_of(&self, session: u64) -> Option<u32> {
        if let Some(script) = self.script(session) {
            return Some(script.steps.len() as u32);
        }
        let law = self.plan.sessions.pages?;
        let pages = law.sample(self.sessions_seed, session).round();
        Some(pages.clamp(1.0, 1e9) as u32)
    }

    /// Returns the pause after page number `page` of a session.
    pub(super) fn pause_after(&self, session: u64, page: u32) -> Duration {
        if let Some(script) = self.script(session) {
            let step = script.steps.get(page as usize);
            return step.map_or(Duration::ZERO, |&(_, pause)| pause);
        }
        let Some(law) = self.plan.sessions.off else {
            return Duration::ZERO;
        };
        let seconds = law.sample(self.off_seed.child(session), page.into());
        // The limit of about thirty years prevents an overflow of the clock.
        Duration::from_nanos((seconds.clamp(0.0, 1e9) * 1e9) as u64)
    }

    /// Ends the test for all loops.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Sets whether the machine has an unused processor for busy-waiting.
    pub(super) fn set_spare(&self, has_spare: bool) {
        self.has_spare.store(has_spare, Ordering::Relaxed);
    }

    pub(super) fn has_spare(&self) -> bool {
        self.has_spare.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Returns this rank's share of the `most` exchanges of the measured window. In an open loop, these exchanges are the
/// first arrivals after the warm-up.
fn share_of(options: &Options, most: u64) -> u64 {
    let before = match &options.users {
        Users::Open { arrivals, .. } if options.share.ranks() > 1 => {
            let schedule = arrivals.schedule();
            schedule.take_while(|&(_, at)| at < options.warm_up).count() as u64
        }
        _ => 0,
    };
    options.share.of_range(before, most)
}

/// Returns whether users of this policy keep their connections full if there are no dependencies or pauses.
fn is_kept_full(policy: &Policy) -> bool {
    policy.pipeline.is_some() || policy.streams.is_some_and(|streams| streams > 1)
}

/// Returns the reason why the engine does not support a policy in any kind of loop; `None` if it does.
pub fn cannot(policy: Policy) -> Option<&'static str> {
    match policy {
        Policy { push: true, .. } => Some("server push is supported in page retrievals only"),
        Policy { ranges: true, .. } => {
            Some("ranges of images are supported in page retrievals only")
        }
        Policy {
            bundle: Some(_), ..
        } => Some("packages and archives are supported in page retrievals only"),
        Policy { alt_svc: true, .. } => Some("a load test uses one protocol: use h2 or h3 instead"),
        _ => None,
    }
}

/// Refuses options that the engine does not support.
fn check_policy(options: &Options) -> Result<(), LoadError> {
    let policy = options.policy;
    let open = matches!(options.users, Users::Open { .. });
    let is_address = without_port(&options.host).parse::<IpAddr>().is_ok();
    if let Some(why) = cannot(policy) {
        return Err(LoadError::Policy { policy, why });
    }
    let why = match policy {
        Policy { hosts: 2.., .. } if open => {
            "open-loop arrivals share connections across hosts: use closed-loop users (-c, --ue)"
        }
        Policy {
            hosts: 2..,
            tls: true,
            ..
        } if is_address => {
            "sharding needs host names for certificates, and this server has only an address"
        }
        _ => return Ok(()),
    };
    Err(LoadError::Policy { policy, why })
}

/// Returns the number of members of the largest page.
pub(super) fn largest_page(plan: &Plan) -> usize {
    let pages = (0..plan.pages.len() as u32).map(|page| plan.pages.get(PageId(page)).members.len());
    pages.max().unwrap_or(1)
}

/// The requests of a plan, rendered except for their targets. There is one request for each shape: a combination of
/// method, content length, content type and host.
pub(super) struct Requests {
    /// The rendered requests, by shape, then by host.
    shapes: Vec<PreparedRequest>,
    hosts: usize,
    /// The shape of each target; empty if all targets have the first shape.
    shape_of: Vec<u16>,
}

impl Requests {
    fn new(options: &Options) -> Result<Requests, LoadError> {
        let mut kinds: Vec<(&str, Option<u64>, Option<&str>)> = Vec::new();
        let host = options.host_field.as_ref().unwrap_or(&options.host);
        let names = host_names(host, options.policy.hosts);
        let mut requests = Requests {
            shapes: Vec::new(),
            hosts: names.len(),
            shape_of: Vec::with_capacity(options.plan.targets.len()),
        };
        for target in &options.plan.targets {
            let bad = |error| LoadError::BadRequest {
                method: target.method.to_string(),
                target: target.path.clone(),
                error,
            };
            if !PreparedRequest::takes(&target.path) {
                return Err(bad(SendError::BadTarget));
            }
            let length = target.content.as_ref().map(|content| content.len() as u64);
            let kind = (&*target.method, length, target.content_type.as_deref());
            let shape = match kinds.iter().rposition(|&known| known == kind) {
                Some(shape) => shape,
                None => {
                    let fields = fields_with(&options.fields, kind.2);
                    for name in &names {
                        let protocol = options.policy.protocol;
                        let prepared =
                            PreparedRequest::new(protocol, kind.0, name, &fields, length);
                        requests.shapes.push(prepared.map_err(bad)?);
                    }
                    kinds.push(kind);
                    kinds.len() - 1
                }
            };
            let shape = u16::try_from(shape).map_err(|_| bad(SendError::BadContent))?;
            requests.shape_of.push(shape);
        }
        if kinds.len() == 1 {
            requests.shape_of = Vec::new();
        }
        Ok(requests)
    }

    /// Returns the rendered part of the request for a target at a host.
    pub(super) fn shape(&self, target: TargetId, host: u16) -> &PreparedRequest {
        let shape = self.shape_of.get(target.0 as usize).copied().unwrap_or(0);
        &self.shapes[usize::from(shape) * self.hosts + usize::from(host)]
    }
}

/// Returns the fields of a request. Adds `content_type` if they contain no Content-Type.
fn fields_with(fields: &[(String, String)], content_type: Option<&str>) -> Vec<(String, String)> {
    let mut fields = fields.to_vec();
    let is_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
    if let Some(content_type) = content_type
        && !fields.iter().any(is_type)
    {
        fields.push(("Content-Type".to_owned(), content_type.to_owned()));
    }
    fields
}
