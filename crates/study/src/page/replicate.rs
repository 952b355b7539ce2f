//! Runs one replicate: builds a laboratory, measures a visit, and checks the validity of its figures.

use std::sync::PoisonError;
use std::time::Duration;

use fathometer_http::driver::{Retrieval, ValidatorCache, Visit};
use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::server::Access;
use fathometer_lab::wire::WireOptions;
use fathometer_load::client::{ClientSockets, LoopStatistics};
use fathometer_model::{Bytes, Instant, Seed, Validity};
use fathometer_packets::Integrity;
use fathometer_sys::era::{AppliedSettings, TcpSettings};
use fathometer_sys::machine::CpuTimes;
use fathometer_sys::usage::ThreadClock;
use fathometer_sys::{Clock, SocketOptions};

use super::accounts::{Accounts, Part, Reading};
use super::capture::{CAPTURE, TAPS, account};
use super::levels::Levels;
use super::place::Place;
use super::retrieving::{Retrieving, retrieve_beforehand};
use super::security::{client_tls, credentials};
use super::serving::Serving;
use super::site::PageSite;
use super::{metrics, path, quic, storage};
use crate::experiment::{Figures, Finished, ReplicateError, Setup, Shared, wire_limits};
use crate::run_folder::{WriteError, write_lines};
use crate::spec::Captures;

/// The default time limit of a visit, in seconds, for paths without a limit in the study.
const USUAL_DEADLINE_S: u64 = 300;

/// Runs a replicate.
pub(super) fn run(
    shared: &Shared<'_>,
    setup: &Setup<'_>,
    page: &PageSite,
) -> Result<Finished, ReplicateError> {
    let cell = setup.cell;
    let levels = Levels::of(setup, shared, page)?;
    let profile = path::profile(cell, setup.profile)?;
    let limits = shared.study.limits.get(cell.level("path"));
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    // Common random numbers: the path's random events depend only on the path and the number of the replicate, so that
    // all compared policies have the same losses.
    let seed = shared
        .seed
        .stream(cell.level("path"))
        .child(u64::from(setup.replicate));
    let accounts = shared.study.accounts.then(Accounts::default);
    let options = wire_options(shared, setup, &levels, seed, clock);
    let building = shared
        .building
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    // The user may have interrupted the run while this replicate waited for the lock.
    if (shared.interrupted)() {
        return Err(ReplicateError::Interrupted);
    }
    let lab = Lab::start(&profile, &options, |side| settings(setup, &levels, side))?;
    let applied = [lab.client.applied.clone(), lab.server.applied.clone()];
    let credentials = credentials(&levels, clock)?;
    let access = credentials.as_ref().map_or(Access::Clear, Access::Tls);
    let place = Place {
        setup,
        levels: &levels,
        host: &lab.server,
        access,
        seed,
        clock,
    };
    let sockets = client_sockets(&place)?;
    let (serving, cache) = serve(&place, &sockets)?;
    let page_cache = prepare_page_cache(&levels, &serving)?;
    drop(building);
    if let Some(accounts) = &accounts {
        open_accounts(accounts, &serving, &lab);
    }
    let before = Counters::read(&serving);
    let retrieving = Retrieving {
        host: &lab.client,
        levels: &levels,
        sockets: &sockets,
        port: access.port(),
        clock,
        deadline: clock.now()
            + Duration::from_secs(limits.map_or(USUAL_DEADLINE_S, |limits| limits.deadline_s)),
    };
    let round_trip = profile.round_trip();
    // The last acknowledgement may be delayed by 40 ms in the kernel, or by a tick of the clock that delays the
    // client's acknowledgements.
    let ack_wait = options
        .client_acks
        .map_or(Duration::from_millis(60), |clock| clock.tick);
    let settle = || {
        // After an interruption, the last packets are not awaited.
        if !(shared.interrupted)() {
            lab.settle(
                round_trip + ack_wait + Duration::from_millis(20),
                Duration::from_secs(15) + round_trip * 4,
            );
        }
    };
    let (visit, readings) = measure(&retrieving, &cache, accounts.as_ref(), shared, &settle)?;
    let (retrieval, statistics) = &visit;
    let counted = before.until_now(&serving);
    let used = accounts.as_ref().map(|accounts| {
        let known = !serving.threads().is_empty();
        [
            (Side::Client, Some(accounts.used(Side::Client))),
            (Side::Server, known.then(|| accounts.used(Side::Server))),
        ]
    });
    let report = serving.stop()?;
    let (certificate, mut validity) = lab.stop();
    metrics::judge_rings(&certificate, &mut validity);
    if (shared.interrupted)() {
        return Err(ReplicateError::Interrupted);
    }
    // The records are written before the capture is read. On a full disk, the capture is truncated, but an error of
    // this write names the real cause.
    write_records(setup, &levels, retrieval)?;
    if accounts.is_some() {
        write_lines(&setup.folder.join("processors.ndjson"), &readings)?;
    }
    let capture = setup.folder.join(TAPS);
    let captures = shared.study.captures.unwrap_or_default();
    let keeps = captures == Captures::All || setup.replicate == 0;
    let client = setup.folder.join(CAPTURE);
    let accounting = account(&capture, keeps.then_some(client.as_path()))?;
    let period = metrics::service_period(&capture, retrieval, clock)?;
    // A damaged capture is not removed, so that it can be inspected.
    if !keeps && accounting.integrity == Integrity::Whole {
        std::fs::remove_file(&capture).map_err(|error| WriteError {
            path: capture.clone(),
            error,
        })?;
    }
    validity.reasons.extend(page_cache.reasons);
    metrics::judge(retrieval, statistics, &accounting, limits, &mut validity);
    metrics::judge_bundle(levels.policy, retrieval, &mut validity);
    if levels.policy.tls {
        metrics::judge_resumption(levels.tls, &retrieval.connections, &mut validity);
    }
    judge_settings(&levels, &applied, &mut validity);
    let mut metrics = accounting.metrics();
    metrics::add(&mut metrics, retrieval, counted.responses, &report, page);
    metrics::add_responses(&mut metrics, retrieval, period);
    metrics::add_storage(&mut metrics, &report, counted.storage_read);
    metrics::add_datagrams(&mut metrics, statistics, &report);
    if levels.page.is_sets() {
        metrics::add_usable(&mut metrics, retrieval);
    }
    for (side, used) in used.into_iter().flatten() {
        if let Some(used) = used {
            metrics::add_processor(&mut metrics, side, used, &readings);
        }
    }
    metrics.insert(
        "stalls".to_owned(),
        metrics::stalls(&accounting, retrieval, clock, round_trip) as f64,
    );
    metrics.insert(
        "client_busy_max_ms".to_owned(),
        statistics.busy_max.as_secs_f64() * 1e3,
    );
    if let Some(share) = counted.steal_share {
        metrics.insert("steal_pct".to_owned(), 100.0 * share);
    }
    Ok(Finished {
        figures: Figures {
            seed,
            started,
            metrics,
            path: certificate,
            validity,
        },
        applied,
    })
}

/// Returns the options of the path between the hosts.
fn wire_options(
    shared: &Shared<'_>,
    setup: &Setup<'_>,
    levels: &Levels<'_>,
    seed: Seed,
    clock: Clock,
) -> WireOptions {
    let (study, path) = (shared.study, setup.cell.level("path"));
    let mut options = WireOptions::new(seed);
    options.clock = clock;
    options.capture = Some(setup.folder.join(TAPS));
    options.comment = format!("{} replicate {}", setup.cell.key, setup.replicate);
    options.snap_length = study.snap_length;
    options.server_receives = study.accounts;
    options.client_receives = study.accounts;
    options.limits = study.limits.get(path).map(wire_limits);
    // If the client acknowledges immediately, there are no acknowledgements to delay.
    options.client_acks = match levels.quick_ack {
        Some(true) => None,
        _ => setup.era.client_delayed_ack,
    };
    // If a path has its own processor, busy-waiting makes it punctual. Otherwise busy-waiting delays other cells, or
    // the processes that receive packets for the hosts.
    let neighbours = study.side_by_side.get(path);
    if study.accounts || neighbours.is_some_and(|&width| width > 1) {
        options.spin = Duration::ZERO;
    }
    options
}

/// Returns the TCP settings of a host: the settings of the era with the changes of the cell.
fn settings(setup: &Setup<'_>, levels: &Levels<'_>, side: Side) -> TcpSettings {
    let mut settings = setup.era.settings(side, levels.initial_window);
    if let Some(algorithm) = &levels.congestion {
        settings.route.congestion_control = Some(algorithm.clone());
    }
    settings
}

/// Returns the client's sockets, with TLS and QUIC if the policy uses them.
fn client_sockets(place: &Place<'_>) -> Result<ClientSockets, ReplicateError> {
    let (levels, setup) = (place.levels, place.setup);
    let tls = client_tls(levels, place.access, setup.folder, place.clock)?;
    let quic = match &tls {
        Some(tls) if levels.policy.protocol.is_over_quic() => Some(quic::client(levels, tls)?),
        _ => None,
    };
    Ok(ClientSockets {
        options: SocketOptions {
            no_delay: Some(levels.demands.nodelay),
            ..setup.era.settings(Side::Client, None).socket
        },
        quick_ack: levels.quick_ack.or(setup.era.client_quick_ack),
        tls,
        quic,
        seed: place.seed,
    })
}

/// Starts the server. If the measured visit is a second visit, or resumes TLS sessions, first makes the first visit.
/// Returns the server, and the client's cache for the measured visit.
fn serve(
    place: &Place<'_>,
    sockets: &ClientSockets,
) -> Result<(Serving, ValidatorCache), ReplicateError> {
    let levels = place.levels;
    let returns = levels.visit == Visit::Revalidate;
    if !(returns || levels.policy.tls && levels.tls.resumes) {
        let serving = Serving::start(place, levels.site)?;
        return Ok((serving, ValidatorCache::default()));
    }
    let first = match returns {
        true => &levels.page.first,
        false => levels.site,
    };
    let serving = Serving::start(place, first)?;
    let filled = retrieve_beforehand(place, sockets)?;
    let cache = match returns {
        true => filled,
        false => ValidatorCache::default(),
    };
    // The server is restarted, so that its figures exclude its work for the first visit. The files may also have
    // changed.
    if levels.page.is_sets() {
        serving.stop()?;
        return Ok((Serving::start(place, levels.site)?, cache));
    }
    Ok((serving, cache))
}

/// Reads the files of sets into the server's page cache, or evicts them. The replicate is invalid if a file cannot be
/// evicted.
fn prepare_page_cache(levels: &Levels<'_>, serving: &Serving) -> Result<Validity, ReplicateError> {
    let mut validity = Validity::default();
    if levels.page.is_sets() {
        let files = storage::files(levels.site, &levels.sets, serving.packages_in())?;
        match levels.cold {
            true => storage::chill(&files, &mut validity)?,
            false => storage::warm(&files)?,
        }
    }
    Ok(validity)
}

/// Opens the accounts of the server's threads, and of the processes that receive packets for the hosts.
fn open_accounts(accounts: &Accounts, serving: &Serving, lab: &Lab) {
    for thread in serving.threads() {
        accounts.open(Side::Server, Part::Program, thread);
    }
    let receivers = [
        (Side::Client, lab.client_receiver()),
        (Side::Server, lab.server_receiver()),
    ];
    for (side, receiver) in receivers {
        if let Some(process) = receiver {
            accounts.open(side, Part::Network, ThreadClock::of_process(process));
        }
    }
}

/// The counters of the server and the machine.
struct Counters {
    responses: Option<u64>,
    storage_read: Option<Bytes>,
    cpu: Option<CpuTimes>,
}

/// The counts during a visit. `None` for a count that is not available.
struct Counted {
    responses: Option<u64>,
    storage_read: Option<Bytes>,
    /// The share of CPU time that the hypervisor used for other machines (steal time).
    steal_share: Option<f64>,
}

impl Counters {
    /// Reads the counters.
    fn read(serving: &Serving) -> Counters {
        Counters {
            responses: serving.responses(),
            storage_read: serving.storage_read(),
            cpu: CpuTimes::read(),
        }
    }

    /// Returns the counts from this reading until now.
    fn until_now(self, serving: &Serving) -> Counted {
        let cpu = CpuTimes::read();
        let responses = self.responses.zip(serving.responses());
        let storage_read = self.storage_read.zip(serving.storage_read());
        Counted {
            responses: responses.map(|(before, after)| after - before),
            storage_read: storage_read.map(|(before, after)| after - before),
            steal_share: self
                .cpu
                .zip(cpu)
                .map(|(before, after)| after.since(before).steal_share()),
        }
    }
}

/// Runs the measured visit and then `settle`, while another thread samples the accounts. Returns the visit and the
/// samples.
fn measure(
    retrieving: &Retrieving<'_>,
    cache: &ValidatorCache,
    accounts: Option<&Accounts>,
    shared: &Shared<'_>,
    settle: &dyn Fn(),
) -> Result<((Retrieval, LoopStatistics), Vec<Reading>), ReplicateError> {
    let clock = retrieving.clock;
    std::thread::scope(|scope| {
        let sampling = accounts.map(|accounts| scope.spawn(move || accounts.sample(clock)));
        // This value is also dropped if the retrieval panics. This matters, because the scope waits for the sampling
        // thread, which runs until the value is dropped.
        let ending = accounts.map(Ending);
        let retrieved = retrieving.run(cache, accounts, shared.interrupted);
        settle();
        drop(ending);
        let readings: Vec<Reading> = match sampling.map(std::thread::ScopedJoinHandle::join) {
            None => Vec::new(),
            Some(Ok(readings)) => readings,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        };
        retrieved.map(|visit| (visit, readings))
    })
}

/// Stops the CPU sampling when it is dropped.
struct Ending<'a>(&'a Accounts);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Writes the records of the visit to the replicate's folder.
fn write_records(
    setup: &Setup<'_>,
    levels: &Levels<'_>,
    retrieval: &Retrieval,
) -> Result<(), WriteError> {
    let folder = setup.folder;
    write_lines(&folder.join("exchanges.ndjson"), &retrieval.exchanges)?;
    write_lines(&folder.join("connections.ndjson"), &retrieval.connections)?;
    if levels.policy.alt_svc {
        write_lines(&folder.join("services.ndjson"), &retrieval.services)?;
    }
    if !retrieval.files.is_empty() && levels.page.is_sets() {
        write_lines(&folder.join("files.ndjson"), &retrieval.files)?;
    }
    Ok(())
}

/// Invalidates the replicate if the cell sets the congestion control but the kernel rejected the algorithm.
fn judge_settings(levels: &Levels<'_>, applied: &[AppliedSettings; 2], validity: &mut Validity) {
    let Some(wanted) = &levels.congestion else {
        return;
    };
    let refused = applied
        .iter()
        .flat_map(AppliedSettings::impossible)
        .find(|setting| setting.wanted == *wanted);
    if let Some(setting) = refused {
        validity.invalidate(setting.to_string());
    }
}
