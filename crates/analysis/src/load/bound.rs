//! The bound of a load test: the cause that limited its rate.

use super::quantity::{count, counted, percent, three_digits};
use super::{LoadResult, LoopKind, rates, signals};

/// The smallest share of the offered rate at which the server counts as keeping up.
const KEPT_UP: f64 = 0.98;

/// The smallest share of waiting users, on average, for which a closed loop reports that all users wait.
const ALWAYS: f64 = 0.9;

/// Returns the bound of the rate, as a clause. It describes the load and the server; only the validity checks can show
/// that the generator was the bound.
///
/// In a closed loop the mean number of waiting users follows from Little's law (`rates::load_factor`).
pub fn of(result: &LoadResult) -> String {
    let window = &result.measured;
    let mut text = match &result.setup.kind {
        _ if window.ended.completed == 0 => "the server: it completed no exchange".to_owned(),
        LoopKind::Closed { users } => {
            let busy = rates::page_load_factor(window)
                .or_else(|| rates::load_factor(window))
                .unwrap_or(0.0);
            let share = busy / f64::from(*users);
            match share >= ALWAYS {
                true => format!(
                    "{}, all waiting for the server",
                    counted(u64::from(*users), "user")
                ),
                false => format!(
                    "the users: {} of {} wait at a time, the others pause or connect",
                    three_digits(busy),
                    count(u64::from(*users))
                ),
            }
        }
        LoopKind::Open { .. } => {
            let offered = rates::offered(window).unwrap_or(0.0);
            let share = rates::achieved(window).unwrap_or(0.0) / offered;
            match share >= KEPT_UP {
                true => "the offered rate; the server kept up".to_owned(),
                false if share.is_finite() => format!(
                    "the server: it completed {} of the offered rate",
                    percent(share)
                ),
                false => "the plan: it has no exchange in the window".to_owned(),
            }
        }
    };
    if let Some(suspicion) = signals::suspicions(result).first() {
        text.push_str(&format!(
            "; {} suspected: {}",
            suspicion.confidence.words(),
            suspicion.resource.name()
        ));
    }
    text
}
