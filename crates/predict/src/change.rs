//! The change of throughput and mean latency when a system changes, with the bootstrap samples of its interval.

use fathometer_queueing::Seconds;

use crate::PredictError;
use crate::bootstrap::Draw;
use crate::fit::{Model, Point};
use crate::network::Fitted;
use crate::options::Options;
use crate::scenario::Scenario;
use crate::series::{Admission, Series};
use crate::simulated::Shape;

/// A system whose figures are predicted.
#[derive(Debug, Clone)]
pub(crate) struct System {
    /// The differences from the measured system.
    pub(crate) scenario: Scenario,
    /// The number of users.
    pub(crate) users: u32,
    /// The factor of the round-trip time.
    pub(crate) round_trip: f64,
}

/// The throughput and the mean latency after a change, each divided by the value before.
pub(crate) type Ratios = [f64; 2];

/// A predicted change.
pub(crate) struct RelativeChange {
    /// The prediction.
    pub(crate) ratios: Ratios,
    /// The changes by bootstrap sample, in the order of the model's samples.
    pub(crate) drawn: Vec<Ratios>,
}

/// A fitted model with its bootstrap samples.
#[derive(Clone, Copy)]
pub(crate) struct Predictor<'a> {
    pub(crate) series: &'a Series,
    pub(crate) model: &'a Model,
    pub(crate) draws: &'a [Draw],
    pub(crate) options: &'a Options,
}

impl Predictor<'_> {
    /// Returns the change from one system to another. Both are simulated with the same random numbers.
    ///
    /// # Errors
    /// When a number of users is out of range.
    pub(crate) fn change(
        &self,
        before: &System,
        after: &System,
    ) -> Result<RelativeChange, PredictError> {
        let ratio = |before: &Point, after: &Point| {
            [
                after.throughput.0 / before.throughput.0,
                after.response.0 / before.response.0,
            ]
        };
        let (earlier, later) = (self.points(before)?, self.points(after)?);
        let ratios: Vec<Ratios> = earlier
            .iter()
            .zip(&later)
            .map(|(before, after)| ratio(before, after))
            .collect();
        let exact = |fitted: &Fitted| -> Result<Ratios, PredictError> {
            let shape = &self.model.shape;
            let solve = |system: &System| {
                let fitted = self.stretched(fitted, shape, system.round_trip);
                fitted.solve(&system.scenario, system.users)
            };
            let ((before, _), (after, _)) = (solve(before)?, solve(after)?);
            Ok([
                after.throughput.0 / before.throughput.0,
                after.response.0 / before.response.0,
            ])
        };
        let assumed = exact(&self.model.exact)?;
        let mut drawn = Vec::new();
        // The fitted loads do not distinguish the variations of the CPU time, so each variation is used in the same
        // number of samples. A sample changes a ratio by the same factor as in the exact solution.
        for (draw, ratios) in self.draws.iter().zip(ratios.iter().cycle()) {
            let found = exact(&draw.fitted)?;
            drawn.push([0, 1].map(|part| ratios[part] * found[part] / assumed[part]));
        }
        Ok(RelativeChange {
            ratios: ratios[0],
            drawn,
        })
    }

    /// Returns the figures of a system, for each variation of the CPU time that fits the loads. The first variation is
    /// the model's variation.
    fn points(&self, system: &System) -> Result<Vec<Point>, PredictError> {
        let model = self.with_round_trip(system.round_trip);
        let System {
            scenario, users, ..
        } = system;
        let (exchanges, seed) = (self.options.exchanges, self.options.seed);
        let mut points = vec![model.at(scenario, *users, exchanges, seed)?];
        points.extend(model.at_larger_variations(scenario, *users, exchanges, seed)?);
        Ok(points)
    }

    /// Returns the model with the round-trip time multiplied by a factor.
    fn with_round_trip(&self, factor: f64) -> Model {
        let mut model = self.model.clone();
        model.exact = self.stretched(&model.exact, &model.shape, factor);
        let own = std::iter::once((&mut model.fitted, &mut model.shape));
        let larger = model.larger_variations.iter_mut();
        for (fitted, shape) in own.chain(larger.map(|(fitted, shape)| (fitted, shape))) {
            *fitted = self.stretched(fitted, shape, factor);
            for delay in &mut shape.further {
                delay.0 *= factor;
            }
        }
        model
    }

    /// Returns a network with the round-trip time multiplied by a factor. The delay contains the round trips of the
    /// exchange.
    fn stretched(&self, fitted: &Fitted, shape: &Shape, factor: f64) -> Fitted {
        let trip = self.series.round_trip.unwrap_or(Seconds(0.0));
        let trips = shape.mean_rounds() * trip.0 + shape.mean_further().0;
        let longer = (factor - 1.0) * trips.min(fitted.delay.0);
        Fitted {
            delay: Seconds(fitted.delay.0 + longer),
            admission: Admission {
                before: Seconds(fitted.admission.before.0 * factor),
                ..fitted.admission.clone()
            },
            ..fitted.clone()
        }
    }
}
