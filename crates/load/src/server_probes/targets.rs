//! The targets of probes: processes, units, or only the machine.

use std::str::FromStr;

use fathometer_sys::cgroup::roots_of_unit;

use super::ProbeError;

/// A target of probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The machine and this network namespace.
    Here,
    /// The machine, and a process with all its descendants and its network namespace.
    Process(u32),
    /// The processes of a service or container: the name of a control group, such as `nginx.service`.
    Unit(String),
}

/// The suffixes of unit names.
const UNITS: [&str; 3] = [".service", ".scope", ".slice"];

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        match text {
            "here" => Ok(Target::Here),
            unit if UNITS.iter().any(|end| unit.ends_with(end)) => Ok(Target::Unit(unit.to_owned())),
            number => match number.parse() {
                Ok(pid @ 1..) => Ok(Target::Process(pid)),
                _ => Err(
                    "give a process ID (for example from `pgrep -o nginx`), a unit such as nginx.service, or `here` for the \
                     machine and this network namespace"
                        .into(),
                ),
            },
        }
    }
}

/// Returns the processes of the targets; `None` means only this network namespace.
///
/// # Errors
///
/// If a unit has no processes.
pub fn processes_of(targets: &[Target]) -> Result<Vec<Option<u32>>, ProbeError> {
    let mut processes = Vec::new();
    for target in targets {
        match target {
            Target::Here => processes.push(None),
            Target::Process(pid) => processes.push(Some(*pid)),
            Target::Unit(unit) => {
                let roots = roots_of_unit(unit);
                if roots.is_empty() {
                    return Err(ProbeError::EmptyUnit(unit.clone()));
                }
                processes.extend(roots.into_iter().map(Some));
            }
        }
    }
    Ok(processes)
}

/// Returns the name and ID of a process, as in `nginx (process 4711)`.
///
/// # Errors
///
/// If there is no such process.
pub fn process_name(pid: u32) -> Result<String, ProbeError> {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => Ok(format!("{} (process {pid})", name.trim())),
        Err(_) => Err(ProbeError::NoProcess(pid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_a_process_or_here() {
        assert_eq!("here".parse(), Ok(Target::Here));
        assert_eq!("4711".parse(), Ok(Target::Process(4711)));
        assert_eq!(
            "nginx.service".parse(),
            Ok(Target::Unit("nginx.service".to_owned()))
        );
        for bad in ["", "0", "-1", "nginx", "There"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
