//! Load tests as trials of a capacity search, which sets their users, their length and their recorder.

use std::time::Duration;

use clap::Parser;
use fathometer_load::Options;
use fathometer_sys::Clock;

use super::{LoadArguments, Ready};
use crate::command::{Failure, usage};

/// The default of `--drain`.
const DRAIN: Duration = Duration::from_secs(5);

/// A command line with only the arguments of a load test.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct CommandLine {
    #[command(flatten)]
    arguments: LoadArguments,
}

impl LoadArguments {
    /// Returns the arguments of trials: `users` are the options for the kind of load, `options` the words after `--`
    /// of `fathometer capacity`.
    ///
    /// # Errors
    /// If an option is unknown, or if the trials set this option themselves.
    pub(crate) fn for_trials(
        url: &str,
        users: &[&str],
        seed: u64,
        timeout: Duration,
        options: &[String],
    ) -> Result<LoadArguments, Failure> {
        let mut line: Vec<String> = vec![url.to_owned(), format!("--seed={seed}")];
        line.push(format!("--timeout={}us", timeout.as_micros()));
        line.extend(users.iter().map(|&word| word.to_owned()));
        line.extend(options.iter().cloned());
        let parsed = CommandLine::try_parse_from(line)
            .map_err(|error| usage(format!("after --: {}", error.render())))?;
        let arguments = parsed.arguments;
        // The search itself sets `-c 1` for closed-loop users, so the parser has already rejected a second -c.
        let has_connections = arguments.connections.is_some() && !users.contains(&"-c");
        let sets = [
            (has_connections, "--connections"),
            (arguments.arrivals.is_some(), "--arrivals"),
            (arguments.batch.is_some(), "--batch"),
            (arguments.steps.is_some(), "--steps"),
            (
                arguments.rate.is_some() && !users.contains(&"--rate"),
                "--rate",
            ),
            (arguments.duration.is_some(), "--duration"),
            (arguments.requests.is_some(), "--requests"),
            (arguments.slo.is_some(), "--slo"),
            (arguments.against.is_some(), "--against"),
            (arguments.limits.gate.is_some(), "--gate"),
            (!arguments.save.is_empty(), "--save"),
            (arguments.report.is_some(), "--report"),
            (!arguments.probe.is_empty(), "--probe"),
            (!arguments.warmup.is_zero(), "--warmup"),
            (arguments.drain != DRAIN, "--drain"),
            (arguments.json, "--json"),
            (arguments.ranks.is_given(), "--ranks"),
        ];
        match sets.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, name)) => Err(usage(format!(
                "{name} cannot be set for the trials of a capacity search: give it before --, if capacity has this option"
            ))),
            None => Ok(arguments),
        }
    }
}

impl LoadArguments {
    /// Adapts arguments with the URL of this program's own origin, for the same requests: the policy is the one
    /// negotiated with the server under test, and any certificate is trusted.
    pub(crate) fn for_own_origin(mut self, setup: &TrialSetup) -> LoadArguments {
        self.connect_to = None;
        if self.policy.is_none() && self.max_streams.is_none() {
            self.policy = Some(setup.ready.checked.policy);
        }
        if setup.is_secure() {
            self.security.trust_any();
        }
        self
    }
}

/// A load test for which each trial sets the users, the length and the recorder.
pub(crate) struct TrialSetup {
    arguments: LoadArguments,
    ready: Ready,
}

impl TrialSetup {
    /// Connects to the server once and reads the workload.
    pub(crate) fn of(arguments: LoadArguments, clock: Clock) -> Result<TrialSetup, Failure> {
        let ready = Ready::of(&arguments, &arguments.url, clock)?;
        Ok(TrialSetup { arguments, ready })
    }

    /// Whether the connections use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.ready.url.secure
    }

    /// Whether the connections use QUIC.
    pub(crate) fn is_over_quic(&self) -> bool {
        self.ready.checked.policy.protocol.is_over_quic()
    }

    /// The policy of the connections.
    pub(crate) fn policy(&self) -> String {
        self.ready.checked.policy.to_string()
    }

    /// The name of the workload; `None` if all requests have the same URL.
    pub(crate) fn workload(&self) -> Option<&str> {
        self.arguments.workload.as_deref()
    }

    /// Whether all requests have the method GET.
    pub(crate) fn has_only_gets(&self) -> bool {
        self.arguments.method == "GET" && self.arguments.body.is_none()
    }

    /// Builds the engine's options.
    pub(crate) fn options(&self) -> Options {
        self.ready.options(&self.arguments)
    }
}
