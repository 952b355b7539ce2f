//! Families of metrics, written `cwnd_le_*_pct`: one metric for each step of a distribution, as in
//! `cwnd_le_1_pct`, `cwnd_le_2_pct` …

use std::collections::BTreeMap;

use crate::selection::number;

/// Whether the name denotes a family.
pub(crate) fn is_family(name: &str) -> bool {
    name.contains('*')
}

/// The declared metrics of a family, in ascending order of their steps.
pub(crate) fn members<'a>(
    metrics: &'a BTreeMap<String, String>,
    family: &str,
) -> Vec<(f64, &'a str)> {
    let Some((head, tail)) = family.split_once('*') else {
        return Vec::new();
    };
    let mut members: Vec<(f64, &str)> = metrics
        .keys()
        .filter_map(|name| {
            let step = name.strip_prefix(head)?.strip_suffix(tail)?;
            Some((number(step)?, name.as_str()))
        })
        .collect();
    members.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_by_their_steps() {
        let names = [
            "cwnd_le_16_pct",
            "cwnd_le_2_pct",
            "cwnd_mean",
            "cwnd_le_x_pct",
        ];
        let metrics = names.map(|name| (name.to_owned(), String::new())).into();
        assert_eq!(
            members(&metrics, "cwnd_le_*_pct"),
            [(2.0, "cwnd_le_2_pct"), (16.0, "cwnd_le_16_pct")]
        );
        assert!(members(&metrics, "cwnd_mean").is_empty());
    }
}
