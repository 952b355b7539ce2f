//! Checks that runs are different shares of one study.

use std::collections::{BTreeMap, BTreeSet};

use fathometer_analysis::run::RunInfo;

use super::part::{MergeError, Part};

/// Checks that the parts are different shares of one run.
pub(super) fn check(parts: &[Part]) -> Result<(), MergeError> {
    let first = &parts[0];
    for part in &parts[1..] {
        let mut differences = differences(&first.info, &part.info);
        let (one, other) = (&first.share, &part.share);
        if one.ranks != other.ranks {
            let (one, other) = (one.ranks, other.ranks);
            differences.push(format!("number of ranks is {one} and {other}"));
        } else if one.design != other.design {
            differences.push("their cells or replicates differ".to_owned());
        }
        if !differences.is_empty() {
            return Err(MergeError::Mismatch {
                first: first.folder.clone(),
                other: part.folder.clone(),
                differences,
            });
        }
    }
    for pair in parts.windows(2) {
        if pair[0].share.rank == pair[1].share.rank {
            let mut both = [pair[0].folder.clone(), pair[1].folder.clone()];
            both.sort();
            let [one, other] = both;
            return Err(MergeError::Overlap {
                rank: pair[0].share.rank,
                one,
                other,
            });
        }
    }
    Ok(())
}

/// Returns the differences between two runs in the properties that must be equal in all parts of one run.
fn differences(one: &RunInfo, other: &RunInfo) -> Vec<String> {
    let build = |info: &RunInfo| {
        let build = info.build.as_ref().filter(|build| !build.sha256.is_empty());
        build.map(|build| (build.sha256.clone(), build.to_string()))
    };
    let mut differences = Vec::new();
    match (build(one), build(other)) {
        (Some(one), Some(other)) if one.0 == other.0 => {}
        (Some(one), Some(other)) => differences.push(format!("build is {} and {}", one.1, other.1)),
        _ => differences.push("one of the runs does not record its build".to_owned()),
    }
    let common = |info: &RunInfo| {
        let mut common = BTreeMap::from([
            ("study".to_owned(), info.study.clone()),
            ("mode".to_owned(), format!("{:?}", info.mode).to_lowercase()),
            ("seed".to_owned(), info.seed.to_string()),
        ]);
        let files = info.study_files.iter();
        common.extend(files.map(|(name, hash)| (format!("the study's {name}"), hash.clone())));
        // An input that only one run has is also a difference: a machine without a server's program would leave out its
        // cells.
        common.extend(info.data.clone());
        common
    };
    let (one, other) = (common(one), common(other));
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for name in names {
        let of = |common: &BTreeMap<String, String>| match common.get(name) {
            Some(value) => value.clone(),
            None => "missing".to_owned(),
        };
        if one.get(name) != other.get(name) {
            differences.push(format!("{name} is {} and {}", of(&one), of(&other)));
        }
    }
    differences
}
