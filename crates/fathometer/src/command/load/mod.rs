//! `fathometer load`: a load test that is as easy as wrk and reports whether its measurement is valid.

mod against;
mod arguments;
mod describe;
mod exit;
pub(crate) mod output;
mod plan;
mod rank_arguments;
mod ranks;
pub mod security;
mod trials;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::load::{self, LoadResult};
use fathometer_http::driver::Policy;
use fathometer_live_view::{self as live_view, Kind, LoadView, Outline, Reading};
use fathometer_model::{Seed, Validity};
use fathometer_sys::{Clock, Interrupt, SocketOptions, sched};

use self::arguments::TIME;
pub use self::arguments::{ArrivalsChoice, LoadArguments};
use self::describe::describe;
pub(crate) use self::exit::exit_code;
use self::output::Format;
pub(crate) use self::trials::TrialSetup;
use super::{Failure, usage};
use fathometer_load::connection_check::{self, Checked};
use fathometer_load::request_fields::{self, RequestFields};
use fathometer_load::server_probes::Probes;
use fathometer_load::url::{self, Url};
use fathometer_load::{Limit, Live, Options, Phase, Users, Windows};

/// Default number of repeats of a window that noise made INVALID.
const REPEATS: u32 = 2;

/// Runs the test and prints the result.
pub fn run(arguments: &LoadArguments) -> Result<ExitCode, Failure> {
    if let Some(place) = ranks::placement(arguments)? {
        return ranks::run(arguments, &place);
    }
    if let Some(baseline) = &arguments.against {
        return against::run(arguments, baseline);
    }
    if arguments.limits.gate.is_some() {
        return Err(usage(
            "--gate needs --against: it limits changes; --slo limits values",
        ));
    }
    let clock = Clock::start();
    let ready = Ready::of(arguments, &arguments.url, clock)?;
    let Ready {
        planned, checked, ..
    } = &ready;
    // Before this line there is no result to save, so a signal may end the program at once.
    let interrupt = Interrupt::install()?;
    let files: Vec<PathBuf> = arguments
        .save
        .iter()
        .chain(&arguments.report)
        .cloned()
        .collect();
    let saved = output::Saved::begin(&files, &planned.plan)?;
    let options = || Options {
        recorder: saved.recorder(),
        ..ready.options(arguments)
    };
    let title = title(arguments, checked.policy, planned);
    let probes = Probes::start(&arguments.probe, clock)?;
    // `--requests N` sends exactly N requests: no window is repeated.
    let most = arguments.requests.map_or(REPEATS, |_| 0);
    let most = arguments.repeats.unwrap_or(most);
    let (mut result, repeated) = repeated(most, &|| interrupt.is_raised(), || {
        let options = options();
        let outline = outline(title.clone(), &options);
        let mut view = LoadView::new(Kind::detect(arguments.quiet), outline);
        let result = fathometer_load::run(options, clock, &|| interrupt.is_raised(), &mut |live| {
            show(&mut view, live);
        });
        view.finish();
        result.map(|result| {
            (
                noise(&result.validity, result.measured.ended.silent_from),
                result,
            )
        })
    })?;
    result.generator.repeated = repeated;
    result.skipped.clone_from(&planned.skipped);
    result.server = probes.map(|probes| probes.stop(&result));
    describe(&mut result, arguments, checked.policy, planned);
    show_result(arguments, &saved, &result, interrupt.is_raised())
}

/// Writes the files of a result, prints it, and returns the exit code.
fn show_result(
    arguments: &LoadArguments,
    saved: &output::Saved,
    result: &LoadResult,
    was_interrupted: bool,
) -> Result<ExitCode, Failure> {
    let slos = arguments
        .slo
        .as_ref()
        .map(|slo| slo.judge(result))
        .unwrap_or_default();
    let format = if arguments.json {
        Format::Json
    } else {
        arguments.format
    };
    // If one file cannot be written, the others and the screen are still written.
    let failures = saved.write(result, &slos, arguments.details);
    print!("{}", format.render(result, &slos, arguments.details)?);
    for failure in &failures {
        eprintln!("fathometer: {failure}");
    }
    if !failures.is_empty() {
        return Ok(ExitCode::from(1));
    }
    if was_interrupted && let Some(covered) = load::cut_short(result) {
        eprintln!("{covered}");
        return Ok(ExitCode::from(1));
    }
    Ok(exit_code(result, &slos))
}

/// A test of one URL that is ready to run: the server supports the policy, and the workload is read.
struct Ready {
    url: Url,
    address: SocketAddr,
    planned: plan::Planned,
    checked: Checked,
    fields: RequestFields,
}

impl Ready {
    fn of(arguments: &LoadArguments, url: &str, clock: Clock) -> Result<Ready, Failure> {
        let url = Url::parse(url)?;
        let address = match &arguments.connect_to {
            Some(place) => url::resolve(place, url.default_port())?,
            None => url.resolve()?,
        };
        let planned = plan::of(arguments, &url)?;
        for note in &planned.notes {
            eprintln!("{}: {note}", planned.plan.name);
        }
        let checked = checked(arguments, &url, address, clock)?;
        let fields =
            request_fields::parse(&arguments.headers).map_err(|error| usage(error.to_string()))?;
        Ok(Ready {
            url,
            address,
            planned,
            checked,
            fields,
        })
    }

    /// Builds the engine's options, without a recorder.
    fn options(&self, arguments: &LoadArguments) -> Options {
        let planned = &self.planned;
        Options {
            users: planned.users.clone(),
            policy: self.checked.policy,
            tls: self.checked.tls.clone(),
            windows: Windows {
                stream: arguments.h2_window,
                connection: arguments.h2_connection_window,
            },
            udp_offload: arguments.udp_offload,
            fields: self.fields.fields.clone(),
            host_field: self.fields.host.clone(),
            timeout: arguments.timeout,
            connect_timeout: arguments.connect_timeout,
            warm_up: arguments.warmup,
            limit: match arguments.requests {
                Some(count) => Limit::Exchanges(count),
                None => Limit::Time(arguments.duration.unwrap_or(planned.length.unwrap_or(TIME))),
            },
            drain: arguments.drain,
            threads: arguments.threads.unwrap_or_else(threads),
            pin: arguments.pin.then_some(0),
            spin: arguments.spin,
            coalescing: arguments.rest,
            seed: Seed(arguments.seed),
            max_requests: arguments.max_requests_per_connection,
            keep_alive: arguments.keep_alive,
            sockets: SocketOptions {
                no_delay: Some(!arguments.nagle),
                ..SocketOptions::default()
            },
            reset_on_close: arguments.reset,
            count_targets: arguments.targets,
            ..Options::new(
                self.address,
                self.url.authority.clone(),
                Arc::clone(&planned.plan),
            )
        }
    }
}

/// Checks the connection, and prints the negotiated TLS parameters.
fn checked(
    arguments: &LoadArguments,
    url: &Url,
    address: SocketAddr,
    clock: Clock,
) -> Result<Checked, Failure> {
    let wanted = connection_check::policy(arguments.policy, arguments.max_streams, url)?;
    let tls = match url.secure {
        true => Some(arguments.security.options(clock)?),
        false if arguments.security.are_given() => {
            return Err(usage("TLS options need an https URL"));
        }
        false => None,
    };
    let server = connection_check::Server {
        url,
        address,
        patience: arguments.connect_timeout,
    };
    let checked = connection_check::check(wanted, tls, server, clock)?;
    if let Some(agreement) = &checked.agreement {
        eprintln!("{}: {agreement}", url.authority);
    }
    Ok(checked)
}

/// Returns the noise of this machine that made a window INVALID, if there is no other reason. `None` if the server
/// stopped answering: a repeat would discard this result.
fn noise(validity: &Validity, silent_from: Option<Duration>) -> Option<String> {
    (fathometer_load::is_noise(validity) && silent_from.is_none())
        .then(|| validity.reasons.join("; "))
}

/// Measures a window, and repeats it at most `most` times while `measure` returns the noise that made it INVALID. An
/// interrupt stops the repeats. Returns the last window and the number of repeats.
fn repeated<T, E>(
    most: u32,
    interrupted: &dyn Fn() -> bool,
    mut measure: impl FnMut() -> Result<(Option<String>, T), E>,
) -> Result<(T, u32), E> {
    let mut repeated = 0;
    loop {
        let (noise, result) = measure()?;
        let Some(noise) = noise.filter(|_| repeated < most && !interrupted()) else {
            return Ok((result, repeated));
        };
        repeated += 1;
        eprintln!(
            "INVALID because of noise of this machine ({noise}): repeating the window, repeat {repeated} of at most \
             {most}"
        );
    }
}

/// Default number of threads: half of the processors, because a server under test on this machine needs the other
/// half.
fn threads() -> usize {
    sched::processors().map_or(1, |processors| processors.len().div_ceil(2))
}

fn title(arguments: &LoadArguments, policy: Policy, planned: &plan::Planned) -> String {
    let who = match &planned.users {
        Users::Closed { users, .. } => format!("{users} users"),
        Users::Open { arrivals, .. } => arrivals.to_string(),
    };
    let what = match &arguments.workload {
        Some(workload) => format!(" {workload}"),
        None => String::new(),
    };
    format!("{}{what} · {policy} · {who}", arguments.url)
}

fn outline(title: String, options: &Options) -> Outline {
    let (total, exchanges) = match options.limit {
        Limit::Time(time) => (Some(options.warm_up + time), None),
        Limit::Exchanges(count) => (None, Some(count)),
    };
    Outline {
        title,
        total,
        exchanges,
        open_loop: matches!(options.users, Users::Open { .. }),
    }
}

fn show(view: &mut LoadView, live: &Live) {
    view.update(&Reading {
        elapsed: live.elapsed,
        phase: match live.phase {
            Phase::WarmUp => live_view::Phase::WarmUp,
            Phase::Measured => live_view::Phase::Steady,
            Phase::Drain => live_view::Phase::Drain,
        },
        last: &live.last,
        so_far: &live.so_far,
        warnings: &[],
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of measured windows if window n has noise n; all later windows have the last noise.
    fn windows(most: u32, noises: &[&str], interrupted: bool) -> (u32, u32) {
        let mut measured = 0;
        let measure = || {
            let noise = noises.get(measured as usize).or(noises.last());
            let noise = noise.filter(|noise| !noise.is_empty());
            measured += 1;
            Ok::<_, Failure>((noise.map(|noise| (*noise).to_owned()), measured))
        };
        let (last, repeated) = repeated(most, &|| interrupted, measure).unwrap();
        assert_eq!(last, repeated + 1);
        (last, measured)
    }

    #[test]
    fn noise_is_a_reason_for_a_repeat_unless_the_server_stopped_answering() {
        let invalid = |reason: &str| {
            let mut validity = Validity::default();
            validity.invalidate(reason.to_owned());
            validity
        };
        let late = "the generator was late";
        assert_eq!(noise(&Validity::default(), None), None);
        assert_eq!(noise(&invalid(late), None).as_deref(), Some(late));
        assert_eq!(noise(&invalid("no port was free"), None), None);
        assert_eq!(noise(&invalid(late), Some(Duration::from_secs(2))), None);
    }

    #[test]
    fn a_window_is_repeated_for_noise_alone_and_so_often_at_most() {
        let late = "the generator was late";
        assert_eq!(windows(2, &[""], false), (1, 1));
        assert_eq!(windows(2, &[late, ""], false), (2, 2));
        assert_eq!(windows(2, &[late], false), (3, 3));
        assert_eq!(windows(0, &[late], false), (1, 1));
        assert_eq!(windows(2, &[late], true), (1, 1));
    }
}
