//! The CPU time that other programs on this machine use during a test.
//!
//! In one experiment, other programs made one of two equal servers slower by a tenth for a minute. Interleaving cannot
//! remove this effect. The probable cause is that the kernel leaves a server's threads on a contended processor.

use std::time::Duration;

use fathometer_sys::clock::process_cpu_time;
use fathometer_sys::machine::CpuTimes;
use fathometer_sys::probe::cpu_time;

/// The largest share of the machine's CPU time that other programs may use.
const MOST: f64 = 0.1;

/// Readings at the start of a test.
pub(super) struct Neighbours {
    machine: CpuTimes,
    own: Duration,
}

impl Neighbours {
    /// Takes the first readings; `None` if the servers' processes are not known, or the kernel has no such figures.
    pub(super) fn start(programs: &[u32]) -> Option<Neighbours> {
        let machine = (!programs.is_empty()).then(CpuTimes::read)??;
        let own = own(programs);
        Some(Neighbours { machine, own })
    }

    /// Takes the last readings. Returns the reason if the test is INVALID.
    pub(super) fn judge(&self, programs: &[u32]) -> Option<String> {
        let spent = own(programs).saturating_sub(self.own);
        let share = share(CpuTimes::read()?.since(self.machine), spent)?;
        (share > MOST).then(|| {
            format!(
                "programs other than the generator and the servers used {:.0} % of the CPU time (limit {:.0} \
                 %): repeat the test when they have exited",
                100.0 * share,
                100.0 * MOST
            )
        })
    }
}

/// CPU time of the generator and the servers.
fn own(programs: &[u32]) -> Duration {
    let servers = programs.iter().map(|pid| cpu_time(*pid)).sum::<Duration>();
    process_cpu_time() + servers
}

/// Returns the share of the machine's time that other programs used; `None` if no time passed.
fn share(machine: CpuTimes, own: Duration) -> Option<f64> {
    let busy = machine.user + machine.system;
    let all = busy + machine.idle + machine.steal;
    (!all.is_zero()).then(|| busy.saturating_sub(own).as_secs_f64() / all.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_use_what_is_neither_idle_nor_ours() {
        let seconds = Duration::from_secs;
        let machine = CpuTimes {
            user: seconds(30),
            system: seconds(10),
            idle: seconds(55),
            steal: seconds(5),
        };
        assert_eq!(share(machine, seconds(35)), Some(0.05));
        assert_eq!(share(machine, seconds(41)), Some(0.0));
        assert_eq!(share(CpuTimes::default(), seconds(1)), None);
    }
}
