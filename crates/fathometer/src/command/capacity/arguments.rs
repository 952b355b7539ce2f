//! The arguments of `capacity`, and the goal of the search that they set.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use fathometer_analysis::load::Slo;
use fathometer_capacity::Goal;
use fathometer_capacity::gate::Gate;
use fathometer_capacity::series::SLOT;
use fathometer_load::server_probes::Target;
use fathometer_study::capacity_search::Demand;

use super::super::arguments::{some_time, time};
use super::super::load::ArrivalsChoice;

/// Arguments of `capacity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CapacityArguments {
    /// The server: http[s]://host[:port]/path
    #[arg(required_unless_present = "self_test")]
    pub(super) url: Option<String>,
    /// SLOs whose capacities are searched for, as in 'p99<100ms,errors<0.1%'; may be given several times. An exchange
    /// that fails, or whose status is 400 or above, counts against every SLO
    #[arg(long, value_name = "LIST", required_unless_present = "self_test")]
    pub(super) slo: Vec<Slo>,
    /// Find the highest number of closed-loop users without pauses, instead of the highest rate
    #[arg(long, conflicts_with = "ue")]
    pub(super) users: bool,
    /// Find the highest number of users with the pauses and sessions of the workload (SURGE's user equivalents)
    #[arg(long)]
    pub(super) ue: bool,
    /// Arrival process of an open loop: constant or poisson
    #[arg(long, value_enum, value_name = "PROCESS", default_value = "constant")]
    pub(super) arrivals: ArrivalsChoice,
    /// Maximum number of connections of an open loop [default: 512, raised up to 8192 if exchanges wait for a free
    /// connection]
    #[arg(short = 'c', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(super) connections: Option<u32>,
    /// Target width of the capacity's interval, relative to the capacity: the search stops when the load that works
    /// and the load that fails are this close
    #[arg(long, value_name = "WIDTH", default_value = "2%", value_parser = percent)]
    pub(super) width: f64,
    /// Confidence level: the lowest probability with which the interval contains the capacity
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = percent)]
    pub(super) confidence: f64,
    /// Load of the first trial, in requests per second or users [default: 100 requests per second, 4 users]
    #[arg(long, value_name = "LOAD", value_parser = positive)]
    pub(super) start: Option<f64>,
    /// Largest load to try, in requests per second or users [default: 1000000 requests per second, 10000 users]
    #[arg(long, value_name = "LOAD", value_parser = positive)]
    pub(super) most: Option<f64>,
    /// Length of the warm-up before each measured window; a longer warm-up of the server is detected and excluded
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(super) warmup: Duration,
    /// Shortest trial that can show that a load works (RFC 9971: final trial duration); half this time can show that
    /// a load fails
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    pub(super) final_trial: Duration,
    /// Maximum duration of a trial; at least --final-trial plus the largest latency limit, or plus --timeout for an SLO
    /// on errors
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = some_time)]
    pub(super) longest_trial: Duration,
    /// Time limit of the search: no trial starts after it; the bounds found within the limit are reported as
    /// inconclusive
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = some_time)]
    pub(super) budget: Duration,
    /// Do not calibrate the generator. The calibration measures the highest rate at which the generator is on time,
    /// with the same requests to this program's own origin; higher loads are not tried
    #[arg(long)]
    pub(super) no_calibration: bool,
    /// Timeout of an exchange [default: ten times the largest latency limit, at least 1s]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(super) timeout: Option<Duration>,
    /// Monitor a server on this machine by its process ID or its unit (nginx.service), with the limits of its control
    /// group, or the machine alone with "here": the result then names the resource that was exhausted first. May be
    /// given several times
    #[arg(long, value_name = "PID|UNIT|here")]
    pub(super) probe: Vec<Target>,
    /// Seed of the workload and of all random choices
    #[arg(long, default_value_t = fathometer_load::workload::SEED)]
    pub(super) seed: u64,
    /// Check the capacity for every SLO: 'capacity>=1200/s' or 'capacity>=300users'; exit code 4 if a capacity is
    /// lower
    #[arg(long, value_name = "GATE")]
    pub(super) gate: Option<Gate>,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Also write an HTML page with the curve through all trials: a single file without scripts
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Show no progress
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,
    /// Search on simulated servers with a known capacity, in virtual time, and print how often the interval contains
    /// the capacity
    #[arg(long, conflicts_with_all = ["url", "slo"])]
    pub(super) self_test: bool,
    /// With --self-test: use real servers over loopback instead of simulated servers; four searches at a time, 10 to
    /// 25 minutes. The machine should be idle
    #[arg(long, requires = "self_test")]
    pub(super) real: bool,
    /// Number of searches of the self-test [default: 200; 48 with --real]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(super) searches: Option<u64>,
    /// Options of `fathometer load` for the requests: --policy, --workload, --header, --insecure, --threads …;
    /// options that the search sets itself are rejected, such as -c, --arrivals and --batch
    #[arg(last = true, value_name = "LOAD OPTIONS")]
    pub(super) load: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  fathometer capacity http://127.0.0.1:8080/ --slo 'p99<100ms,errors<0.1%'
  fathometer capacity http://127.0.0.1:8080/ --slo 'p99<50ms' --gate 'capacity>=1200/s'
  fathometer capacity http://127.0.0.1:8080/ --slo 'p99<50ms' --probe nginx.service
  fathometer capacity http://127.0.0.1:8080/ --slo 'p95<1s' --ue -- --workload surge
  fathometer capacity https://127.0.0.1:8443/ --slo 'p99<20ms' -- --policy h2 --insecure
  fathometer capacity --self-test                     test whether the intervals contain the known capacities
  fathometer capacity --self-test --real              the same on real sockets

Exit codes: 0 each SLO has an interval, 1 failed, 2 usage error, 3 inconclusive or INVALID (interrupted, out of
time, or above the generator's limit), 4 a gate failed, or (--self-test) too few intervals contain the capacity.";

/// Builds the goal of a search.
pub(super) fn goal(arguments: &CapacityArguments, demand: Demand, timeout: Duration) -> Goal {
    let whole = demand.is_users();
    let (start, most) = if whole { (4.0, 10_000.0) } else { (100.0, 1e6) };
    let defaults = Goal::default();
    Goal {
        width: arguments.width,
        confidence: arguments.confidence,
        start: arguments.start.unwrap_or(start),
        most: arguments.most.unwrap_or(most),
        whole,
        // Rounded up to whole slots, because the measured window begins with a slot.
        warm_up: (arguments.warmup.as_secs_f64() / SLOT).ceil() * SLOT,
        final_trial: arguments.final_trial.as_secs_f64(),
        longest_trial: arguments.longest_trial.as_secs_f64(),
        timeout: timeout.as_secs_f64(),
        budget: arguments.budget.as_secs_f64(),
        ..defaults
    }
}

/// Parses a share above 0 and below 1: `2%` or `0.02`.
fn percent(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("write a share above 0 % and below 100 %, as in 2%".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (1e-3..=1e7).contains(&load) => Ok(load),
        _ => Err("write a load from 0.001 to 10000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_or_fractions() {
        assert_eq!(percent("2%"), Ok(0.02));
        assert_eq!(percent("0.5"), Ok(0.5));
        for wrong in ["0%", "100%", "2", "x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
