//! Parses changes of the number of users.

use std::time::Duration;

use fathometer_model::quantity;

/// The reason why a text is not a valid step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} is not a step: {why}: use USERS@TIME, as in 50@30s")]
pub struct StepError {
    part: String,
    why: String,
}

/// Parses `10@0s,50@30s`: the number of users from each time on.
///
/// # Errors If a part is malformed, or its time is not later than the time of the previous part.
pub fn parse(text: &str) -> Result<Vec<(Duration, u32)>, StepError> {
    let mut steps: Vec<(Duration, u32)> = Vec::new();
    for part in text.split(',') {
        let wrong = |why: String| StepError {
            part: part.to_owned(),
            why,
        };
        let (users, at) = part
            .split_once('@')
            .ok_or_else(|| wrong("it has no @".to_owned()))?;
        let users = users
            .parse()
            .map_err(|_| wrong(format!("{users:?} is not a number of users")))?;
        let at = quantity::time(at).map_err(|error| wrong(error.to_string()))?;
        if steps.last().is_some_and(|&(before, _)| at <= before) {
            return Err(wrong(
                "its time is not later than the time of the previous step".to_owned(),
            ));
        }
        steps.push((at, users));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_users_and_times() {
        let seconds = Duration::from_secs;
        assert_eq!(
            parse("10@0,50@30s").unwrap(),
            [(Duration::ZERO, 10), (seconds(30), 50)]
        );
        for (bad, why) in [
            ("10", "no @"),
            ("x@1s", "\"x\""),
            ("1@2s,1@1s", "\"1@1s\""),
            ("1@soon", "unit"),
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
