//! Reads the results of the checks from the guest's console.

use serde_json::Value;

/// The checks so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    made: Vec<Check>,
    /// The environment in which doctor runs, its exit code, and its output so far.
    doctor: Option<(String, String, String)>,
    done: bool,
}

#[derive(Debug)]
struct Check {
    place: String,
    what: String,
    passed: bool,
    detail: String,
}

impl Checks {
    /// Handles one line of the console.
    pub(super) fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("CHECK ") {
            let mut words = rest.splitn(4, ' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            let (place, what, result, detail) = (word(), word(), word(), word());
            self.add(place, what, result == "ok", detail);
        } else if let Some(rest) = line.strip_prefix("DOCTOR ") {
            let words: Vec<&str> = rest.split(' ').collect();
            match (words.as_slice(), self.doctor.take()) {
                (&[place, code, "begin"], _) => {
                    self.doctor = Some((place.to_owned(), code.to_owned(), String::new()));
                }
                (_, Some((place, code, text))) => self.judge_doctor(place, &code, &text),
                (_, None) => {}
            }
        } else if let Some((_, _, text)) = &mut self.doctor {
            text.push_str(line);
            text.push('\n');
        } else if line.starts_with("GUEST ") {
            self.done |= line.starts_with("GUEST done");
            println!("{line}");
        }
    }

    /// Doctor must report each checked limit as available. It must not advise root to run as root.
    fn judge_doctor(&mut self, place: String, code: &str, text: &str) {
        let judged = judge(text, place.starts_with("delegated"));
        let (passed, detail) = match judged {
            Ok(detail) => (code == "0", format!("exit code {code}, {detail}")),
            Err(reason) => (false, reason),
        };
        self.add(place, "doctor".to_owned(), passed, detail);
    }

    fn add(&mut self, place: String, what: String, passed: bool, detail: String) {
        let check = Check {
            place,
            what,
            passed,
            detail,
        };
        println!("{}", check.row());
        self.made.push(check);
    }

    /// The number of failed checks, plus one if the guest did not finish.
    pub(super) fn failed(&self) -> usize {
        let failed = self.made.iter().filter(|check| !check.passed).count();
        failed + usize::from(!self.done || self.made.is_empty())
    }

    /// Prints a summary.
    pub(super) fn print(&self) {
        println!("\nwith control groups v2 only:");
        for check in &self.made {
            println!("{}", check.row());
        }
        if !self.done {
            println!("  the guest did not complete its checks");
        }
        let passed = self.made.iter().filter(|check| check.passed).count();
        println!("{passed} passed, {} failed", self.failed());
    }
}

impl Check {
    fn row(&self) -> String {
        let mark = if self.passed { "passed" } else { "FAILED" };
        format!(
            "  {mark}  {:<15} {:<12} {}",
            self.place, self.what, self.detail
        )
    }
}

/// Limits that are not available to a user: systemd does not delegate these controllers, and the kernel shows the
/// backlog setting only in namespaces of root.
const ROOTS: &[&str] = &[
    "disk bytes limit",
    "disk operations limit",
    "processor choice",
    "backlog limit",
];

fn judge(text: &str, is_user: bool) -> Result<String, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| {
        let last = text.lines().last().unwrap_or_default();
        format!("no JSON ({error}): {last}")
    })?;
    let abilities = report["abilities"].as_array().ok_or("no abilities")?;
    let mut limits = 0;
    for ability in abilities {
        let word = |key: &str| ability[key].as_str().unwrap_or_default();
        let (name, detail) = (word("name"), word("detail"));
        let able = ability["able"] == true;
        if !is_user && !able && detail.contains("run as root") {
            return Err(format!("{name} advises root to run as root: {detail}"));
        }
        if word("group") == "limits" {
            limits += 1;
            let expected = !(is_user && ROOTS.contains(&name));
            if able != expected {
                return Err(format!("{name} has able = {able}: {detail}"));
            }
        }
    }
    if limits < 9 {
        return Err(format!("only {limits} limits"));
    }
    Ok(format!("{limits} limits as expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doctor(able: bool, detail: &str) -> String {
        let ability = |n: usize| {
            serde_json::json!({
                "group": "limits", "name": format!("limit {n}"), "able": able || n > 0, "detail": detail,
            })
        };
        let abilities: Vec<Value> = (0..9).map(ability).collect();
        serde_json::json!({ "abilities": abilities }).to_string()
    }

    #[test]
    fn the_console_output_is_parsed_into_checks() {
        let mut checks = Checks::default();
        let doctor = doctor(true, "by version 2");
        for line in [
            "[    1.0] noise",
            "GUEST up 4 s",
            "DOCTOR root 0 begin",
            doctor.as_str(),
            "DOCTOR root end",
            "CHECK root cpu.max ok cpu.max 5000 10000",
        ] {
            checks.line(line);
        }
        assert_eq!(checks.failed(), 1, "the guest did not finish");
        checks.line("GUEST done 9 s");
        assert_eq!((checks.made.len(), checks.failed()), (2, 0));
        checks.line("CHECK root clean FAILED left: a group");
        assert_eq!(checks.failed(), 1);
        assert_eq!(checks.made[2].detail, "left: a group");
    }

    #[test]
    fn a_doctor_report_with_a_false_ability_is_an_error() {
        assert!(judge(&doctor(true, "there"), false).is_ok());
        let error = judge(&doctor(false, "refused"), false).unwrap_err();
        assert!(
            error.contains("limit 0 has able = false: refused"),
            "{error}"
        );
        let error = judge(&doctor(false, "run as root"), false).unwrap_err();
        assert!(error.contains("advises root"), "{error}");
        assert!(judge("Killed", false).is_err());
        assert!(judge(r#"{"abilities": []}"#, false).is_err());
    }
}
