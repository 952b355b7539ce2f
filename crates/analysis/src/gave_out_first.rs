//! The resource that was exhausted first in a capacity study: as metrics of a replicate, and as the most frequent resource of
//! a cell.
//!
//! A replicate has one metric for each resource that [`crate::bottleneck::gave_out`] can name, and one metric for "no
//! resource". The metric of the resource that was exhausted first is 1; all others are 0. So the mean of a metric over
//! replicates is the share of replicates. The evidence is in `capacity.json`.

use std::fmt;

use fathometer_model::ReplicateRecord;
use serde::Serialize;

use crate::bottleneck::{GaveOut, Resource};
use crate::run::Cell;

/// The prefix of the metrics' names. It precedes the name of a resource (with underscores) or `nothing`.
const PREFIX: &str = "capacity_gave_out_";
const NOTHING: &str = "nothing";

/// The resource that was exhausted first in most of the replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MostFrequent {
    /// The resource; `None` if no probed resource was exhausted. Of several resources with the same count, it is the
    /// first in the order of [`Resource::ALL`].
    pub resource: Option<Resource>,
    /// The number of replicates in which this resource was exhausted first.
    pub replicates: usize,
    /// The number of valid replicates with a result.
    pub of: usize,
}

/// Writes text as in `host's CPU time (3 of 4)`.
impl fmt::Display for MostFrequent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = noun(self.resource);
        write!(f, "{noun} ({} of {})", self.replicates, self.of)
    }
}

/// The name of a resource for use in a sentence, without an article.
pub fn noun(resource: Option<Resource>) -> &'static str {
    resource.map_or("no probed resource", Resource::noun)
}

/// The metrics of a replicate from its result.
pub fn metrics(found: &GaveOut) -> impl Iterator<Item = (String, f64)> + use<> {
    let found = found.resource;
    candidates().map(move |resource| {
        let is_found = u8::from(resource == found);
        (metric(resource), f64::from(is_found))
    })
}

/// The resource that was exhausted first in a replicate; the outer `None` means that the replicate has no result.
pub fn of_replicate(record: &ReplicateRecord) -> Option<Option<Resource>> {
    let from = record.metrics.range(PREFIX.to_owned()..);
    let mut ours = from.take_while(|(name, _)| name.starts_with(PREFIX));
    let (name, _) = ours.find(|(_, value)| **value == 1.0)?;
    match &name[PREFIX.len()..] {
        NOTHING => Some(None),
        word => word.replace('_', "-").parse().ok().map(Some),
    }
}

/// The resource that was exhausted first in most of the valid replicates of a cell; `None` if no replicate has a
/// result.
pub fn of_cell(cell: &Cell) -> Option<MostFrequent> {
    let judged: Vec<Option<Resource>> = cell.valid().filter_map(of_replicate).collect();
    let count = |resource| judged.iter().filter(|found| **found == resource).count();
    let counts = candidates().map(|resource| (resource, count(resource)));
    // Of several resources with the same count, the first is returned.
    let (resource, replicates) = counts.reduce(|most, next| match next.1 > most.1 {
        true => next,
        false => most,
    })?;
    (replicates > 0).then_some(MostFrequent {
        resource,
        replicates,
        of: judged.len(),
    })
}

/// The resources that can be named, and "no resource".
fn candidates() -> impl Iterator<Item = Option<Resource>> {
    let resources = Resource::ALL
        .into_iter()
        .filter(|resource| GaveOut::can_name(*resource));
    resources.map(Some).chain([None])
}

fn metric(resource: Option<Resource>) -> String {
    let name = resource.map_or(NOTHING, Resource::name);
    format!("{PREFIX}{}", name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use fathometer_model::{CellKey, PathCertificate, Validity};

    use super::*;

    fn found(resource: Option<Resource>) -> GaveOut {
        GaveOut {
            resource,
            confidence: None,
            text: String::new(),
            figures: Vec::new(),
        }
    }

    fn cell(found: &[Option<Option<Resource>>]) -> Cell {
        let replicates = found.iter().zip(0..);
        let replicates = replicates.map(|(found_here, replicate)| ReplicateRecord {
            block: "main".to_owned(),
            cell: CellKey::default(),
            replicate,
            seed: 1,
            order: replicate,
            started: 0.0,
            metrics: found_here
                .iter()
                .flat_map(|resource| metrics(&self::found(*resource)))
                .collect(),
            path: PathCertificate::default(),
            validity: Validity::default(),
            folder: String::new(),
        });
        Cell {
            block: "main".to_owned(),
            key: CellKey::default(),
            replicates: replicates.collect(),
        }
    }

    #[test]
    fn exactly_one_metric_of_a_replicate_is_one() {
        for resource in [None, Some(Resource::Cpu), Some(Resource::DiskOperations)] {
            let all: Vec<(String, f64)> = metrics(&found(resource)).collect();
            let ones = all.iter().filter(|(_, value)| *value == 1.0).count();
            let zeros = all.iter().filter(|(_, value)| *value == 0.0).count();
            assert_eq!((ones, zeros), (1, 8), "{all:?}");
            let record = &cell(&[Some(resource)]).replicates[0];
            assert_eq!(of_replicate(record), Some(resource));
        }
        let names: Vec<String> = metrics(&found(None)).map(|(name, _)| name).collect();
        assert!(names.contains(&"capacity_gave_out_disk_operations".to_owned()));
        assert!(names.contains(&"capacity_gave_out_nothing".to_owned()));
    }

    #[test]
    fn the_most_frequent_resource_of_a_cell_has_its_count() {
        let (cpu, link) = (Some(Resource::Cpu), Some(Resource::LinkRate));
        let of =
            |found: &[Option<Option<Resource>>]| of_cell(&cell(found)).map(|most| most.to_string());
        assert_eq!(
            of(&[Some(link), Some(cpu), Some(link), None]).as_deref(),
            Some("rate of the link (2 of 3)")
        );
        assert_eq!(
            of(&[Some(link), Some(cpu)]).as_deref(),
            Some("host's CPU time (1 of 2)"),
            "the first of the list"
        );
        assert_eq!(
            of(&[Some(None)]).as_deref(),
            Some("no probed resource (1 of 1)")
        );
        assert_eq!(of(&[None, None]), None, "not judged");
        let mut invalid = cell(&[Some(cpu), Some(link), Some(link)]);
        invalid.replicates[1].validity.invalidate("noise");
        assert_eq!(of_cell(&invalid).unwrap().of, 2);
    }
}
