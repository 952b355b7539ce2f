//! The schemas of the quantities in a study's file. The types of `fathometer_model::quantity` check the same ranges.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! quantity {
    ($name:ident, $least:expr, $most:expr) => {
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "number", "minimum": $least, "maximum": $most })
            }
        }
    };
}

quantity!(Time, 0, 2_592_000);
quantity!(PositiveTime, 1e-6, 2_592_000);
quantity!(TimeInMicroseconds, 0, 2_592_000_000_000_u64);
quantity!(CoreCount, 0, 4096);
quantity!(PercentNumber, 0, 100);
quantity!(RoundTripCount, 0, 1_000_000);
quantity!(RatioNumber, 1e-9, 1e9);

#[cfg(test)]
mod tests {
    use fathometer_model::quantity;
    use serde_json::Value;

    use super::*;

    /// Checks that the type accepts both ends of the schema's range, and rejects numbers outside it.
    fn agrees<S: JsonSchema, T: TryFrom<f64>>() {
        let schema: Value = S::json_schema(&mut SchemaGenerator::default()).into();
        let (least, most) = (&schema["minimum"], &schema["maximum"]);
        let (least, most) = (least.as_f64().unwrap(), most.as_f64().unwrap());
        let name = S::schema_name();
        for accepted in [least, most] {
            assert!(T::try_from(accepted).is_ok(), "{name} {accepted}");
        }
        for refused in [least - 1e-3, most * 1.001] {
            assert!(T::try_from(refused).is_err(), "{name} {refused}");
        }
    }

    #[test]
    fn ranges_are_those_of_the_types() {
        agrees::<Time, quantity::TimeSpan>();
        agrees::<PositiveTime, quantity::PositiveTimeSpan>();
        agrees::<TimeInMicroseconds, quantity::Microseconds>();
        agrees::<CoreCount, quantity::Cores>();
        agrees::<PercentNumber, quantity::Percent>();
        agrees::<RoundTripCount, quantity::RoundTrips>();
        agrees::<RatioNumber, quantity::Ratio>();
    }
}
