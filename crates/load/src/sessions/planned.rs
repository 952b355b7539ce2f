//! The planned exchanges of a loop: counts the exchanges in flight, and the exchanges without a response.

use fathometer_http::client::Received;
use fathometer_model::{Failure, Outcome};

use super::super::context::Context;
use super::super::exchange::Exchange;

/// The connection number of an exchange that has no connection.
pub(super) const NO_CONNECTION: u32 = u32::MAX;

/// The planned exchanges of a loop. Each of them ends once.
#[derive(Debug, Default)]
pub(super) struct PlannedExchanges {
    in_flight: u64,
    ended: u64,
}

impl PlannedExchanges {
    /// Returns the number of exchanges that have not ended.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the number of exchanges that have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Plans an exchange, unless the limit on exchanges is reached. Returns whether the exchange was planned. Exchanges
    /// of the warm-up are not limited. `announced`: its interval has already counted it.
    pub(super) fn plan(
        &mut self,
        context: &mut Context<'_>,
        exchange: &Exchange,
        announced: bool,
    ) -> bool {
        let at = exchange.planned_at();
        let may_be_planned = at < context.tally.edges().measured || context.shared.take_exchange();
        if may_be_planned {
            context.tally.planned(at, announced);
            self.in_flight += 1;
        }
        may_be_planned
    }

    /// Records that a planned exchange has ended.
    pub(super) fn end(&mut self) {
        self.in_flight -= 1;
        self.ended += 1;
    }
}

/// Counts an exchange without a response. It failed before it was sent, or, without a failure, the test ended. `user`
/// and `connection` are numbers in the whole test.
pub(super) fn count_unanswered(
    context: &mut Context<'_>,
    exchange: &Exchange,
    (user, connection): (u32, u32),
    failure: Option<Failure>,
) {
    let (nothing, now) = (Received::default(), context.now());
    let tally = &mut context.tally;
    tally.failed(exchange, failure, &nothing, now);
    let outcome = Outcome::Failed(failure.unwrap_or(Failure::LocalAbort));
    tally.row(exchange, user, connection, &nothing, outcome, now);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use fathometer_model::Instant;
    use fathometer_sys::Clock;
    use fathometer_workload::plan::{Plan, Target};

    use super::super::super::shared::Shared;
    use super::super::super::tally::{Edges, Tally};
    use super::super::super::timeline::Spares;
    use super::super::super::{Limit, Options};
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn the_limit_of_exchanges_does_not_count_those_of_the_warm_up() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let plan = Arc::new(Plan::single(Target::get("/", None)));
        let shared = Shared::new(&Options {
            limit: Limit::Exchanges(2),
            ..Options::new(address, "server", plan)
        })
        .unwrap();
        let (parts, _received) = channel();
        let spares = Spares::new(1, Duration::from_secs(1));
        let mut tally = Tally::new(Duration::from_secs(1), (parts, spares), None, 1);
        tally.begin(Edges {
            start: at(0),
            measured: at(100),
            end: at(1000),
        });
        let mut context = Context::new(&shared, Clock::start(), tally);
        let mut planned = PlannedExchanges::default();
        let accepted = [10, 90, 100, 200, 300].map(|nanos| {
            let exchange = Exchange::planned(at(nanos), 0, 0, 0, 0);
            planned.plan(&mut context, &exchange, false)
        });
        assert_eq!(accepted, [true, true, true, true, false]);
        assert_eq!((planned.in_flight(), planned.ended()), (4, 0));
        planned.end();
        assert_eq!((planned.in_flight(), planned.ended()), (3, 1));
    }
}
