//! A load test that several machines share; this process is one of the ranks.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathometer_live_view::{Kind, LoadView};
use fathometer_load::{Limit, Live, Options, Phase};
use fathometer_ranks::environment::{self, GivenPlace, PlaceError, Placement};
use fathometer_ranks::message::Hello;
use fathometer_ranks::plan_hash;
use fathometer_ranks::record::TestFacts;
use fathometer_ranks::rendezvous;
use fathometer_ranks::secret::Secret;
use fathometer_ranks::session::{Session, SessionOptions, SharedSession, WholeLive};
use fathometer_sys::{Clock, Interrupt};

use super::super::{Failure, usage};
use super::arguments::LoadArguments;
use super::rank_arguments::RankArguments;
use super::{Ready, describe, outline, output, show, show_result, title};
use crate::build_facts;

/// Returns the rank of this process, the number of ranks and their rendezvous; `None` if the test has only one process.
pub(super) fn placement(arguments: &LoadArguments) -> Result<Option<Placement>, Failure> {
    let mut given = GivenPlace {
        rank: arguments.ranks.rank,
        ranks: arguments.ranks.ranks,
        rendezvous: arguments.ranks.rendezvous.clone(),
    };
    let variable = |name: &str| std::env::var(name).ok();
    let mut found = environment::placement(&given, &variable);
    // A launcher that sets the ranks by PMI may also publish the rendezvous.
    if let Err(PlaceError::NoRendezvous {
        rank, source_of, ..
    }) = &found
        && *source_of == environment::PMI
        && let Some(place) = rendezvous::by_pmi(
            *rank,
            arguments.ranks.listen,
            arguments.ranks.rendezvous_timeout,
        )?
    {
        given.rendezvous = Some(place);
        found = environment::placement(&given, &variable);
    }
    let found = found.map_err(|error| match &error {
        PlaceError::NoRendezvous { .. } | PlaceError::NodeList(_) => error.into(),
        _ => usage(error.to_string()),
    })?;
    let several = found.filter(|place| place.share.ranks() > 1);
    if several.is_none() && arguments.ranks.spool.is_some() {
        return Err(usage("--spool needs --ranks of at least 2"));
    }
    Ok(several)
}

/// The shortest `--rank-timeout`: two ping intervals of one second.
const MIN_RANK_TIMEOUT: Duration = Duration::from_secs(2);

/// Rejects options for a single machine, and a timeout that every rank would exceed.
fn check(arguments: &LoadArguments) -> Result<(), Failure> {
    if arguments.ranks.rank_timeout < MIN_RANK_TIMEOUT {
        return Err(usage(
            "--rank-timeout is too short: ranks send a ping once a second, so set at least 2s",
        ));
    }
    for (is_given, name, why) in [
        (
            arguments.against.is_some(),
            "--against",
            "compares two servers from one machine",
        ),
        (
            !arguments.probe.is_empty(),
            "--probe",
            "reads the machine that it runs on",
        ),
        (
            arguments.repeats.is_some_and(|repeats| repeats > 0),
            "--repeats",
            "repeats a window on one machine",
        ),
        (arguments.limits.gate.is_some(), "--gate", "needs --against"),
    ] {
        if is_given {
            return Err(usage(format!("{name} {why}: omit it, or --ranks")));
        }
    }
    Ok(())
}

fn secret(arguments: &RankArguments) -> Result<Secret, Failure> {
    let (content, from) = match &arguments.secret_file {
        Some(file) => {
            let content = std::fs::read(file).map_err(|error| {
                format!("failed to read the secret {}: {error}", file.display())
            })?;
            (content, file.display().to_string())
        }
        None => match std::env::var(environment::SECRET) {
            Ok(secret) => (secret.into_bytes(), environment::SECRET.to_owned()),
            Err(_) => {
                return Err(usage(format!(
                    "several ranks need a shared secret: set --secret-file FILE or {} on all ranks; create it once with \
                     `head -c 32 /dev/urandom | base64`",
                    environment::SECRET
                )));
            }
        },
    };
    Secret::new(&content).map_err(|error| format!("{from}: {error}").into())
}

/// Returns the files that this rank writes. Rank 0 writes the results of the whole test; each rank writes the rows of
/// its own exchanges.
fn files(arguments: &LoadArguments, rank: u32) -> Vec<PathBuf> {
    let is_rows = |path: &Path| path.extension().is_some_and(|ending| ending == "parquet");
    let all = arguments.save.iter().chain(&arguments.report);
    all.filter(|path| rank == 0 || is_rows(path))
        .map(|path| match is_rows(path) {
            true => path.with_extension(format!("rank-{rank}.parquet")),
            false => path.clone(),
        })
        .collect()
}

fn facts(options: &Options) -> TestFacts {
    TestFacts {
        ranks: options.share.ranks(),
        interval: options.interval,
        warm_up: options.warm_up,
        measured: match options.limit {
            Limit::Time(length) => Some(length),
            Limit::Exchanges(_) => None,
        },
    }
}

/// Returns the hash of the settings that must be equal on all ranks.
fn plan_of(arguments: &LoadArguments, options: &Options) -> [u8; 32] {
    plan_hash::hash(&[
        &arguments.url,
        &options.plan,
        &options.users,
        &options.policy.to_string(),
        &options.fields,
        &options.host_field,
        &options.limit,
        &(
            options.timeout,
            options.connect_timeout,
            options.warm_up,
            options.drain,
        ),
        &options.interval,
        &options.seed,
        &(
            options.max_requests,
            options.keep_alive,
            options.count_targets,
        ),
        &options.coalescing,
    ])
}

/// Runs the share of this rank. Rank 0 prints the result of the whole test.
pub(super) fn run(arguments: &LoadArguments, place: &Placement) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let secret = secret(&arguments.ranks)?;
    let Some(place_to_meet) = place.rendezvous.clone() else {
        return Err("several ranks need a rendezvous: set --rendezvous".into());
    };
    let rank = place.share.rank();
    let clock = Clock::start();
    let ready = Ready::of(arguments, &arguments.url, clock)?;
    let interrupt = Interrupt::install()?;
    let planned = &ready.planned;
    let saved = output::Saved::begin(&files(arguments, rank), &planned.plan)?;
    let mut options = Options {
        share: place.share,
        recorder: saved.recorder(),
        ..ready.options(arguments)
    };
    if let Some(folder) = &arguments.ranks.spool {
        begin_spool(folder, rank)?;
    }
    let facts = facts(&options);
    let session_options = SessionOptions {
        hello: Hello {
            rank,
            ranks: place.share.ranks(),
            plan: plan_of(arguments, &options),
            version: build_facts::VERSION.to_owned(),
            host: rendezvous::host_name(),
        },
        secret,
        facts,
        rendezvous: arguments.ranks.rendezvous_timeout,
        silence: arguments.ranks.rank_timeout,
        drain: options.drain,
        spool: arguments.ranks.spool.clone(),
    };
    let interrupted = Box::new(move || interrupt.is_raised());
    let session = match rank {
        0 => {
            let address = match arguments.ranks.listen {
                Some(address) => address,
                None => rendezvous::listening_address(&place_to_meet)?,
            };
            Session::listen(session_options, address, clock, interrupted)?
        }
        _ => Session::join(
            session_options,
            place_to_meet,
            rendezvous::resolve,
            clock,
            interrupted,
        )?,
    };
    let stopped = session.stopped();
    let session = Arc::new(Mutex::new(session));
    options.ensemble = Some(Box::new(SharedSession(Arc::clone(&session))));
    let title = format!(
        "{} · {} ranks",
        title(arguments, ready.checked.policy, planned),
        place.share.ranks()
    );
    let mut view = LoadView::new(
        Kind::detect(arguments.quiet || rank > 0),
        outline(title, &options),
    );
    let mut notice = |text: &str| eprintln!("fathometer: {text}");
    let ended = fathometer_load::run(
        options,
        clock,
        &|| interrupt.is_raised() || stopped.load(Ordering::Relaxed),
        &mut |_| {
            let mut session = session.lock().unwrap_or_else(|lock| lock.into_inner());
            for live in session.progress(&mut notice) {
                show(&mut view, &of_whole(live, &facts));
            }
        },
    );
    // The engine has dropped its reference, so this reference is the last.
    let session = Arc::into_inner(session)
        .ok_or("the session is still in use")?
        .into_inner()
        .unwrap_or_else(|lock| lock.into_inner());
    let mut result = match ended {
        Ok(result) => result,
        Err(error) => {
            session.failed(&error.to_string());
            return Err(error.into());
        }
    };
    result.skipped.clone_from(&planned.skipped);
    describe(&mut result, arguments, ready.checked.policy, planned);
    let merged = session.finish(result, &mut notice, &mut |live| {
        show(&mut view, &of_whole(live.clone(), &facts));
    });
    view.finish();
    match merged? {
        Some(result) => show_result(arguments, &saved, &result, interrupt.is_raised()),
        // Rank 0 prints the result. This rank writes the rows of its exchanges to its own file. A failure does not change
        // the exit code: mpirun would stop rank 0 before it has the results of all ranks.
        None => {
            if let Some(failure) = saved.failure_of_record() {
                eprintln!("fathometer: {failure}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Checks before the test that this rank's spool can be written, and that it is not the spool of an earlier test.
fn begin_spool(folder: &Path, rank: u32) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("failed to create the folder {}: {error}", folder.display()))?;
    let file = Session::spool_file(folder, rank);
    match file.exists() {
        true => Err(format!(
            "{} is the spool of an earlier test: choose another folder with --spool, or remove it",
            file.display()
        )
        .into()),
        false => Ok(()),
    }
}

/// Returns the progress of the whole test, for the live view.
fn of_whole(whole: WholeLive, facts: &TestFacts) -> Live {
    let elapsed = whole.last.start + whole.last.length;
    let end = facts.measured.map(|measured| facts.warm_up + measured);
    Live {
        elapsed,
        phase: match () {
            () if elapsed <= facts.warm_up => Phase::WarmUp,
            () if end.is_none_or(|end| elapsed <= end) => Phase::Measured,
            () => Phase::Drain,
        },
        last: whole.last,
        so_far: whole.so_far,
        corrected: whole.corrected,
    }
}
