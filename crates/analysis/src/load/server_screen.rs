//! The part of the final screen about the server's machine.

use super::LoadResult;
use super::lines::{HEAD, WIDTH, line};
use super::quantity::{bytes, count, counted, percent, seconds, three_digits};
use super::server::{GroupProbes, MachineProbes, NetworkProbes, ProgramProbes, ServerProbes};
use super::signals::{seconds_an_exchange, suspicions};
use crate::text::hanging;

/// The text for a figure that the kernel does not report.
const NOT_AVAILABLE: &str = "not available";

/// Returns the whole part; empty without probes.
pub(super) fn render(result: &LoadResult) -> String {
    let Some(server) = &result.server else {
        return String::new();
    };
    let scale = Scale {
        watched: server.watched_s,
        exchange: seconds_an_exchange(result),
    };
    let mut text = String::from("\n");
    for program in &server.programs {
        text.push_str(&of_program(program, &scale));
    }
    text.push_str(&of_machine(&server.machine, &scale));
    for group in &server.groups {
        text.push_str(&of_group(group, &scale));
    }
    for network in &server.networks {
        text.push_str(&of_network(network, &scale));
    }
    text.push_str(&cost(server));
    for failure in &server.failures {
        text.push_str(&line("not read", failure));
    }
    text.push_str(&suspected(result));
    text
}

/// Converts counts of the watched time to rates.
struct Scale {
    watched: f64,
    /// Seconds per exchange.
    exchange: f64,
}

impl Scale {
    fn per_second(&self, number: f64) -> f64 {
        number / self.watched
    }

    fn per_exchange(&self, number: f64) -> Option<f64> {
        let each = self.per_second(number) * self.exchange;
        each.is_finite().then_some(each)
    }

    /// A rate per second and per exchange, as in `1 234/s (2.1 an exchange)`.
    fn rate(&self, number: Option<u64>) -> String {
        let Some(number) = number else {
            return NOT_AVAILABLE.to_owned();
        };
        let rate = three_digits(self.per_second(number as f64));
        match self.per_exchange(number as f64) {
            Some(each) => format!("{rate}/s ({} an exchange)", three_digits(each)),
            None => format!("{rate}/s"),
        }
    }

    /// A rate in bytes, as in `1.2 MB/s`.
    fn bytes(&self, number: Option<u64>) -> String {
        number.map_or(NOT_AVAILABLE.to_owned(), |number| {
            format!("{}/s", bytes(self.per_second(number as f64)))
        })
    }
}

fn of_group(group: &GroupProbes, scale: &Scale) -> String {
    let mut facts = vec![format!("group {}", group.name)];
    if let Some(cores) = group.cpu_quota_cores {
        let used = group
            .cpu_s
            .map(|cpu| percent(scale.per_second(cpu) / cores));
        let used = used.map_or(String::new(), |used| format!(", {used} used"));
        let throttled = group.throttled_share.map(percent);
        let throttled = throttled.map_or(String::new(), |share| {
            format!(", throttled in {share} of its periods")
        });
        let cores = three_digits(cores);
        facts.push(format!("processor quota of {cores} cores{used}{throttled}"));
    }
    if let Some(limit) = group.memory_limit_bytes {
        let used = group
            .memory_bytes
            .map_or(NOT_AVAILABLE.to_owned(), |used| bytes(used as f64));
        facts.push(format!("memory {used} of {}", bytes(limit as f64)));
    }
    line("limits", &facts.join("; "))
}

fn of_program(program: &ProgramProbes, scale: &Scale) -> String {
    let share = |time: f64| percent(scale.per_second(time));
    let each = |time: f64| {
        scale
            .per_exchange(time)
            .map_or(NOT_AVAILABLE.to_owned(), seconds)
    };
    let mut facts = vec![
        format!(
            "{}, {} of {}",
            program.name,
            counted(program.threads, "thread"),
            match program.processes {
                1 => "1 process".to_owned(),
                number => format!("{} processes", count(number)),
            }
        ),
        format!(
            "CPU {} an exchange ({} user, {} system), {} of one processor",
            each(program.cpu_s),
            each(program.cpu_user_s),
            each(program.cpu_system_s),
            share(program.cpu_s),
        ),
    ];
    facts.push(format!(
        "busiest thread {}",
        program
            .busiest_thread_share
            .map_or(NOT_AVAILABLE.to_owned(), percent)
    ));
    let mut text = line("server", &facts.join("; "));
    let bytes_or_not = |number: Option<u64>| {
        number.map_or(NOT_AVAILABLE.to_owned(), |number| bytes(number as f64))
    };
    text.push_str(&line(
        "  memory",
        &format!(
            "RSS {}, PSS {}; {}; read from disks {}, written {}; descriptors {}",
            bytes(program.resident_bytes as f64),
            bytes_or_not(program.proportional_bytes),
            counted(program.major_faults, "major fault"),
            bytes_or_not(program.read_bytes),
            bytes_or_not(program.written_bytes),
            program.descriptors.map_or(NOT_AVAILABLE.to_owned(), count),
        ),
    ));
    text.push_str(&line(
        "  switches",
        &format!(
            "voluntary {}, involuntary {}",
            scale.rate(program.voluntary_switches),
            scale.rate(program.involuntary_switches)
        ),
    ));
    text
}

fn of_machine(machine: &MachineProbes, scale: &Scale) -> String {
    let share = |share: Option<f64>| share.map_or(NOT_AVAILABLE.to_owned(), percent);
    let number = |number: Option<u64>| number.map_or(NOT_AVAILABLE.to_owned(), count);
    let bytes_or_not = |number: Option<u64>| {
        number.map_or(NOT_AVAILABLE.to_owned(), |number| bytes(number as f64))
    };
    let processors = machine
        .processors
        .map_or(String::new(), |number| counted(number, "processor") + ": ");
    let mut text = line(
        "machine",
        &format!(
            "{processors}user {}, system {}, softirq {}, interrupts {}, idle {}, waiting for disks {}",
            share(machine.user_share),
            share(machine.system_share),
            share(machine.softirq_share),
            share(machine.irq_share),
            share(machine.idle_share),
            share(machine.iowait_share),
        ),
    );
    for (head, what) in [
        (
            "  memory",
            format!(
                "page cache {}, MemAvailable {}; paged in {}, out {}; major faults {}, pages read again {}",
                bytes_or_not(machine.page_cache_bytes),
                bytes_or_not(machine.available_bytes),
                scale.bytes(machine.paged_in_bytes),
                scale.bytes(machine.paged_out_bytes),
                number(machine.major_faults),
                number(machine.refaults),
            ),
        ),
        (
            "  disks",
            match machine.disk_reads {
                Some(reads) => format!(
                    "{} of {}, {} writes of {}, busiest disk {}",
                    counted(reads, "read"),
                    bytes_or_not(machine.disk_read_bytes),
                    number(machine.disk_writes),
                    bytes_or_not(machine.disk_written_bytes),
                    share(machine.disk_busy_share),
                ),
                None => NOT_AVAILABLE.to_owned(),
            },
        ),
        (
            "  switches",
            format!(
                "{} context switches, {} interrupts",
                scale.rate(machine.context_switches),
                scale.rate(machine.interrupts),
            ),
        ),
        (
            "  pressure",
            match machine.cpu_pressure_share {
                Some(cpu) => format!(
                    "tasks waited for a processor {} of the time, for memory {}, for a disk {}",
                    percent(cpu),
                    share(machine.memory_pressure_share),
                    share(machine.io_pressure_share),
                ),
                None => NOT_AVAILABLE.to_owned(),
            },
        ),
    ] {
        text.push_str(&line(head, &what));
    }
    text
}

fn of_network(network: &NetworkProbes, scale: &Scale) -> String {
    let number = |number: Option<u64>| number.map_or(NOT_AVAILABLE.to_owned(), count);
    let mut text = line(
        "network",
        &format!(
            "{}: TCP segments in {}, out {}, {} retransmitted; listen overflows {}, drops {}{}",
            network.name,
            scale.rate(network.segments_in),
            scale.rate(network.segments_out),
            number(network.retransmitted),
            number(network.listen_overflows),
            number(network.listen_drops),
            match network.has_generator {
                true => "; the generator is in the same namespace and counted too",
                false => "",
            }
        ),
    );
    let states: Vec<String> = network
        .states
        .iter()
        .filter(|&(_, mean)| *mean > 0.0)
        .map(|(state, mean)| format!("{state} {}", three_digits(*mean)))
        .collect();
    let states = match (network.states.is_empty(), states.is_empty()) {
        (true, _) => NOT_AVAILABLE.to_owned(),
        (_, true) => "none".to_owned(),
        _ => format!("{} on average", states.join(", ")),
    };
    text.push_str(&line("  sockets", &states));
    text
}

fn cost(server: &ServerProbes) -> String {
    let cost = &server.cost;
    let share = cost.cpu_s / cost.from_first_to_last_s;
    let share = share.is_finite().then(|| percent(share));
    line(
        "  probes",
        &format!(
            "watched for {}, {} at intervals of {}, each at most {}; they used {} of one processor",
            seconds(server.watched_s),
            counted(cost.readings, "reading"),
            seconds(cost.period_s),
            seconds(cost.longest_s),
            share.unwrap_or(NOT_AVAILABLE.to_owned()),
        ),
    )
}

/// The resources that are suspected from the figures.
fn suspected(result: &LoadResult) -> String {
    let suspicions = suspicions(result);
    if suspicions.is_empty() {
        let nothing = "none: no probed resource is nearly exhausted";
        return line("suspected", nothing);
    }
    let mut text = String::new();
    for (place, suspicion) in suspicions.iter().enumerate() {
        let head = if place == 0 { "suspected" } else { "" };
        let sentence = format!(
            "{} {}: {}; to confirm, {}",
            suspicion.confidence.words(),
            suspicion.resource.noun(),
            suspicion.evidence.join("; "),
            suspicion.confirm
        );
        text.push_str(&hanging(&format!("{head:<HEAD$}"), &sentence, WIDTH));
    }
    text
}
