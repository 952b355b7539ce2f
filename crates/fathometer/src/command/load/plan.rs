//! Builds the plan of a load test from the arguments: the requests, and the users or the arrival times.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Seed;
use fathometer_workload::arrivals::{Arrivals, Profile, RateTextError};
use fathometer_workload::fit::FitReport;
use fathometer_workload::plan::{Choice, Plan, Sessions, Target};

use super::super::site::stages;
use super::super::{Failure, usage};
use super::arguments::{ArrivalsChoice, LoadArguments, TIME, USERS};
use fathometer_load::Users;
use fathometer_load::url::Url;
use fathometer_load::{user_steps, workload};

/// The plan of a test.
pub struct Planned {
    /// The requests.
    pub plan: Arc<Plan>,
    /// The users of a closed loop, or the arrivals of an open loop.
    pub users: Users,
    /// The arrival process of an open loop.
    pub process: Option<ArrivalsChoice>,
    /// The default length of the measured window, if a recording, a rate or the steps of the users define it.
    pub length: Option<Duration>,
    /// Notes about the workload for the user.
    pub notes: Vec<String>,
    /// Number of lines or entries of the workload's source that are not requested, by reason.
    pub skipped: BTreeMap<String, u64>,
}

/// Interval between the starts of two user equivalents, as in SURGE.
const UE_START: Duration = Duration::from_millis(50);

/// Builds the plan from the arguments.
pub fn of(arguments: &LoadArguments, url: &Url) -> Result<Planned, Failure> {
    let seed = Seed(arguments.seed);
    let (mut plan, notes, skipped) = match &arguments.workload {
        Some(name) => {
            let mut quiet = |_: &str, _: f64| {};
            let mut shown = stages();
            let progress: &mut dyn FnMut(&str, f64) = match arguments.quiet {
                true => &mut quiet,
                false => &mut shown,
            };
            let loaded = workload::load(name, seed, progress)?;
            let mut notes = loaded.notes();
            notes.extend(loaded.fit().into_iter().flat_map(FitReport::differing));
            let skipped = loaded.skipped();
            (loaded.into_plan(), notes, skipped)
        }
        None => (
            Plan::single(target(arguments, url)?),
            Vec::new(),
            BTreeMap::new(),
        ),
    };
    let recorded = plan.recorded.clone();
    let chosen = match (arguments.arrivals, &arguments.rate, &recorded) {
        // A recording is replayed at its recorded times, unless --arrivals, --rate or -c is given.
        (None, None, Some(_)) if arguments.connections.is_none() => Some(ArrivalsChoice::Recorded),
        (None, None, _) => None,
        (chosen, _, _) => Some(chosen.unwrap_or(ArrivalsChoice::Constant)),
    };
    let mut length = rate_length(arguments)?;
    let users = match chosen {
        None => {
            let users = closed(arguments, &mut plan)?;
            length = steps_length(arguments, &users);
            users
        }
        Some(process) => {
            let arrivals = match process {
                ArrivalsChoice::Recorded if arguments.batch.is_some() => {
                    return Err(usage(
                        "recorded arrivals have their own times: --batch needs --arrivals constant or poisson",
                    ));
                }
                ArrivalsChoice::Recorded => {
                    let Some(times) = recorded else {
                        return Err(usage(
                            "--arrivals recorded needs a workload with recorded times: log:FILE or har:FILE",
                        ));
                    };
                    let arrivals = Arrivals::recorded(times, arguments.speed)?;
                    // The test ends one second after the last request, so that this request is included.
                    length = arrivals
                        .recorded_length()
                        .map(|length| length + Duration::from_secs(1));
                    if length.is_none()
                        && arguments.duration.is_none()
                        && arguments.requests.is_none()
                    {
                        return Err(format!(
                            "at --speed {} the replay takes more than a year: set a larger --speed, or --duration",
                            arguments.speed
                        )
                        .into());
                    }
                    arrivals
                }
                ArrivalsChoice::Constant => Arrivals::constant(profile(arguments, length)?),
                ArrivalsChoice::Poisson => Arrivals::poisson(profile(arguments, length)?, seed),
            };
            Users::Open {
                arrivals: arguments
                    .batch
                    .into_iter()
                    .fold(arrivals, Arrivals::in_batches),
                // By default, enough connections for a whole batch.
                connections: arguments
                    .connections
                    .unwrap_or(USERS.max(arguments.batch.map_or(0, NonZeroU32::get))),
            }
        }
    };
    Ok(Planned {
        plan: Arc::new(plan),
        users,
        process: chosen,
        length,
        notes,
        skipped,
    })
}

fn target(arguments: &LoadArguments, url: &Url) -> Result<Target, Failure> {
    let content = match arguments
        .body
        .as_deref()
        .map(|body| body.strip_prefix('@').ok_or(body))
    {
        None => None,
        Some(Ok(file)) => Some(
            std::fs::read(file)
                .map_err(|error| format!("failed to read the body {file:?}: {error}"))?,
        ),
        Some(Err(text)) => Some(text.as_bytes().to_vec()),
    };
    Ok(Target {
        method: Cow::Owned(arguments.method.clone()),
        content: content.map(Arc::from),
        ..Target::get(url.target.clone(), None)
    })
}

/// Returns the users of a closed loop. Without `--ue`, pauses and session ends of the workload are ignored; scripts
/// define their own pauses and sessions.
fn closed(arguments: &LoadArguments, plan: &mut Plan) -> Result<Users, Failure> {
    let scripted = matches!(plan.choice, Choice::Scripts(_));
    if arguments.ue.is_none() {
        plan.sessions = Sessions::ENDLESS;
    } else if plan.sessions == Sessions::ENDLESS && !scripted {
        let what = match &arguments.workload {
            Some(name) => format!("the workload {name} has"),
            None => "a single URL has".to_owned(),
        };
        return Err(usage(format!(
            "{what} no pauses and no sessions, which --ue needs: use -c instead"
        )));
    }
    let users = arguments.ue.or(arguments.connections);
    let mut steps = match &arguments.steps {
        Some(text) => user_steps::parse(text).map_err(|error| usage(error.to_string()))?,
        None => Vec::new(),
    };
    let first = steps
        .first()
        .filter(|(at, _)| at.is_zero())
        .map(|&(_, users)| users);
    if first.is_some() {
        steps.remove(0);
    }
    Ok(Users::Closed {
        users: first.or(users).unwrap_or(USERS),
        start_interval: match arguments.ue {
            Some(_) => UE_START,
            None => Duration::ZERO,
        },
        steps,
    })
}

fn profile(arguments: &LoadArguments, length: Option<Duration>) -> Result<Profile, Failure> {
    let Some(text) = &arguments.rate else {
        return Err(usage("an open loop needs a --rate"));
    };
    let whole = arguments.warmup + arguments.duration.or(length).unwrap_or(TIME);
    Profile::from_text(text, whole).map_err(|error| bad_rate(text, &error))
}

/// Returns the length of a measured window that ends with the last part of the rate.
fn rate_length(arguments: &LoadArguments) -> Result<Option<Duration>, Failure> {
    let Some(text) = &arguments.rate else {
        return Ok(None);
    };
    let stated = Profile::stated_length(text, TIME).map_err(|error| bad_rate(text, &error))?;
    Ok(stated.and_then(|whole| after_warm_up(arguments, whole)))
}

/// Returns the length of a measured window that ends [`TIME`] after the last change of the number of users.
fn steps_length(arguments: &LoadArguments, users: &Users) -> Option<Duration> {
    let Users::Closed { steps, .. } = users else {
        return None;
    };
    let &(last, _) = steps.last()?;
    after_warm_up(arguments, last + TIME)
}

/// Returns the length of a test after its warm-up; `None` if the warm-up takes the whole test.
fn after_warm_up(arguments: &LoadArguments, whole: Duration) -> Option<Duration> {
    let measured = whole.saturating_sub(arguments.warmup);
    (!measured.is_zero()).then_some(measured)
}

fn bad_rate(text: &str, error: &RateTextError) -> Failure {
    usage(format!("--rate {text}: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct CommandLine {
        #[command(flatten)]
        arguments: LoadArguments,
    }

    fn planned(options: &[&str]) -> Planned {
        let line = ["http://127.0.0.1:9/", "--quiet"];
        let arguments = CommandLine::parse_from(line.iter().chain(options)).arguments;
        of(&arguments, &Url::parse(&arguments.url).unwrap()).unwrap()
    }

    #[test]
    fn the_default_length_contains_all_parts_of_a_rate_and_all_steps_of_the_users() {
        for (options, seconds) in [
            (&["--rate", "100"][..], None),
            (&["--rate", "100..1000"], None),
            (&["--rate", "100x30s,200x30s"], Some(60)),
            (&["--rate", "100x30s,200"], Some(40)),
            (&["--rate", "100x30s,200x30s", "--warmup", "20s"], Some(40)),
            (&["--rate", "100x5s", "--warmup", "20s"], None),
            (&["--steps", "10@0s,50@30s"], Some(40)),
            (&["--steps", "10@0s"], None),
            (&["-c", "4"], None),
        ] {
            let length = planned(options).length;
            assert_eq!(length, seconds.map(Duration::from_secs), "{options:?}");
        }
    }

    #[test]
    fn a_ramp_at_the_end_of_a_rate_lasts_to_the_end_of_the_default_length() {
        let Users::Open { arrivals, .. } = planned(&["--rate", "0x30s,0..100"]).users else {
            panic!("a rate is an open loop");
        };
        // The ramp takes the ten seconds after the first part.
        let expected = arrivals.expected(Duration::ZERO, Duration::from_secs(40));
        assert!((expected - 500.0).abs() < 1e-6, "{expected}");
    }

    #[test]
    fn a_recording_is_replayed_at_its_own_times_by_default() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let line = |second| {
            format!("h - - [10/Oct/2000:13:55:{second} -0700] \"GET /a HTTP/1.1\" 200 5\n")
        };
        std::fs::write(&file, line(36) + &line(39)).unwrap();
        let log = format!("log:{}", file.display());
        let process = |more: &[&str]| planned(&[&["--workload", &log], more].concat()).process;
        assert_eq!(process(&[]), Some(ArrivalsChoice::Recorded));
        assert_eq!(process(&["--rate", "5"]), Some(ArrivalsChoice::Constant));
        assert_eq!(process(&["-c", "5"]), None);
        assert_eq!(
            planned(&["--workload", &log]).length,
            Some(Duration::from_secs(4))
        );
    }
}
