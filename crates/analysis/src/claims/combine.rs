//! Combines verdicts in single environments to the verdict on a claim.
//!
//! A claim holds if it holds in every environment. This needs no correction: the verdict is wrong only if it is wrong
//! in each environment in which the claim fails (the intersection-union test: R. L. Berger, "Multiparameter hypothesis
//! testing and acceptance sampling", Technometrics 24, 1982). A contradiction needs a correction, because any
//! environment may contradict the claim by chance. So it counts only at the simultaneous level of all environments
//! (Bonferroni). If one environment of several is sufficient for the claim (`any`), the two rules are exchanged.
//!
//! Means over environments are never judged, because a mean hides an effect that is reversed in some environments.

use std::collections::BTreeMap;

use super::{EraVerdict, Part, Verdict};

/// Parts that count as one part: a single environment, or the alternatives of `any`.
pub(super) struct Group<'a> {
    parts: Vec<&'a Part>,
    any: bool,
}

/// The verdict of a group at the level of one interval, and at the simultaneous level of all groups.
#[derive(Clone, Copy)]
struct Judged {
    alone: Verdict,
    strict: Verdict,
    leaning: Verdict,
    p_value: Option<f64>,
}

/// Groups of alternative parts. The parts of a group agree in every factor except `any`. Without `any`, each part is a
/// group.
pub(super) fn groups<'a>(parts: &'a [Part], any: Option<&str>) -> Vec<Group<'a>> {
    let Some(any) = any else {
        let alone = |part| Group {
            parts: vec![part],
            any: false,
        };
        return parts.iter().filter(|part| part.counts).map(alone).collect();
    };
    let mut groups: BTreeMap<Vec<&(String, String)>, Vec<&'a Part>> = BTreeMap::new();
    for part in parts.iter().filter(|part| part.counts) {
        let rest = part.environment.iter().filter(|(f, _)| f != any).collect();
        groups.entry(rest).or_default().push(part);
    }
    let group = |parts| Group { parts, any: true };
    groups.into_values().map(group).collect()
}

impl Group<'_> {
    fn judged(&self) -> Judged {
        let tested: Vec<&Part> = self
            .parts
            .iter()
            .copied()
            .filter(|part| part.verdict != Verdict::NotTested)
            .collect();
        let leaning = |part: &&Part| part.leaning.unwrap_or(part.verdict);
        let [first, rest @ ..] = tested.as_slice() else {
            return Judged {
                alone: Verdict::NotTested,
                strict: Verdict::NotTested,
                leaning: Verdict::NotTested,
                p_value: None,
            };
        };
        if !self.any || rest.is_empty() {
            return Judged {
                alone: first.verdict,
                strict: first.simultaneous_verdict,
                leaning: leaning(first),
                p_value: first.p_value,
            };
        }
        // One part that holds at the simultaneous level is sufficient. The group contradicts the claim only if all its
        // parts do.
        let best = |verdict: Verdict| matches!(verdict, Verdict::Holds | Verdict::HoldsWeaker);
        let strict = tested.iter().map(|part| part.simultaneous_verdict);
        let verdict = match strict.filter(|verdict| best(*verdict)).min() {
            Some(verdict) => verdict,
            None => worst_if_all_decided(tested.iter().map(|part| part.verdict)),
        };
        let leaning = tested
            .iter()
            .map(leaning)
            .min()
            .unwrap_or(Verdict::NotTested);
        let p_values = tested.iter().filter_map(|part| {
            let own = part.leaning.unwrap_or(part.verdict);
            Some((own, part.p_value?))
        });
        let of = |wanted: Verdict| {
            p_values
                .clone()
                .filter(move |(own, _)| *own == wanted)
                .map(|(_, p)| p)
        };
        let p_value = match best(leaning) {
            true => of(leaning)
                .reduce(f64::min)
                .map(|p| (p * tested.len() as f64).min(1.0)),
            false => of(leaning).reduce(f64::max),
        };
        Judged {
            alone: verdict,
            strict: verdict,
            leaning,
            p_value,
        }
    }
}

fn worst_if_all_decided(verdicts: impl Iterator<Item = Verdict> + Clone) -> Verdict {
    let against = |verdict: Verdict| matches!(verdict, Verdict::Equal | Verdict::Reversed);
    match verdicts.clone().all(against) {
        true => verdicts.max().unwrap_or(Verdict::NotTested),
        false => Verdict::Undecided,
    }
}

/// Returns the verdict on a claim in one era. `groups` are the parts that count.
pub(super) fn combine(era: &str, groups: &[Group<'_>]) -> EraVerdict {
    let judged: Vec<Judged> = groups.iter().map(Group::judged).collect();
    let tested: Vec<Judged> = judged
        .iter()
        .copied()
        .filter(|judged| judged.alone != Verdict::NotTested)
        .collect();
    let alone: Vec<Verdict> = tested.iter().map(|judged| judged.alone).collect();
    let strict: Vec<Verdict> = tested.iter().map(|judged| judged.strict).collect();
    let verdict = conjunction(&alone, &strict);
    let leanings: Vec<Verdict> = tested.iter().map(|judged| judged.leaning).collect();
    let leaning = conjunction(&leanings, &leanings);
    let p_value = p_value(verdict, leaning, &tested);
    let parts = groups.iter().flat_map(|group| &group.parts);
    let undecided = parts.filter(|part| part.verdict == Verdict::Undecided);
    let needed: Option<Vec<u64>> = undecided.map(|part| part.replicates_to_decide).collect();
    let replicates_to_decide = needed.and_then(|needed| needed.into_iter().max());
    EraVerdict {
        era: era.to_owned(),
        verdict,
        remark: remark(&alone, judged.len()),
        leaning: (verdict == Verdict::Undecided && leaning != verdict).then_some(leaning),
        p_value,
        replicates_to_decide: replicates_to_decide.filter(|_| verdict == Verdict::Undecided),
        parts: Vec::new(),
    }
}

/// The verdict if all parts must hold. `alone` has the verdicts at the level of one interval, `strict` at the
/// simultaneous level.
fn conjunction(alone: &[Verdict], strict: &[Verdict]) -> Verdict {
    // A part that holds at its own level does not contradict the claim. Its simultaneous interval may still lie within
    // the margin of equality and not within the bound, because it is longer.
    let against = alone
        .iter()
        .zip(strict)
        .filter(|(alone, _)| **alone > Verdict::HoldsWeaker)
        .map(|(_, strict)| *strict)
        .filter(|verdict| matches!(verdict, Verdict::Equal | Verdict::Reversed));
    if alone.is_empty() {
        Verdict::NotTested
    } else if let Some(worst) = against.max() {
        worst
    } else if alone.iter().all(|verdict| *verdict <= Verdict::HoldsWeaker) {
        alone.iter().copied().max().unwrap_or(Verdict::NotTested)
    } else {
        Verdict::Undecided
    }
}

/// The p-value of the verdict or, if it is undecided, of the leaning. If the claim holds, it is the p-value of the
/// weakest part. If a part contradicts the claim, it is the p-value of the strongest such part, times the number of
/// parts.
fn p_value(verdict: Verdict, leaning: Verdict, tested: &[Judged]) -> Option<f64> {
    let meant = match verdict {
        Verdict::Undecided => leaning,
        decided => decided,
    };
    match meant {
        Verdict::Holds | Verdict::HoldsWeaker => {
            let all = tested.iter().map(|judged| judged.p_value);
            all.collect::<Option<Vec<f64>>>()?
                .into_iter()
                .reduce(f64::max)
        }
        Verdict::Equal | Verdict::Reversed => {
            let own = tested.iter().filter(|judged| judged.leaning == meant);
            let least = own.filter_map(|judged| judged.p_value).reduce(f64::min)?;
            Some((least * tested.len() as f64).min(1.0))
        }
        Verdict::Undecided | Verdict::NotTested => None,
    }
}

/// The numbers of verdicts, as in `holds at 2 of 3, reversed at 1`; empty if all parts were measured and agree.
fn remark(tested: &[Verdict], all: usize) -> String {
    let count = |wanted: Verdict| tested.iter().filter(|verdict| **verdict == wanted).count();
    let found = Verdict::ALL
        .into_iter()
        .filter(|verdict| count(*verdict) > 0);
    let mut sentences = Vec::new();
    if found.clone().count() > 1 {
        let tally: Vec<String> = found
            .enumerate()
            .map(|(place, verdict)| match place {
                0 => format!("{verdict} at {} of {}", count(verdict), tested.len()),
                _ => format!("{verdict} at {}", count(verdict)),
            })
            .collect();
        sentences.push(tally.join(", "));
    }
    let missing = all - tested.len();
    if missing > 0 && !tested.is_empty() {
        sentences.push(format!("{missing} of {all} not measured"));
    }
    sentences.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Equal, Holds, HoldsWeaker, NotTested, Reversed, Undecided};

    #[test]
    fn all_have_to_hold_and_one_against_is_enough_if_it_stands_among_all() {
        let both = |verdicts: &[Verdict]| conjunction(verdicts, verdicts);
        assert_eq!(both(&[Holds, Holds]), Holds);
        assert_eq!(both(&[Holds, HoldsWeaker]), HoldsWeaker);
        assert_eq!(both(&[Holds, Undecided]), Undecided);
        assert_eq!(both(&[Reversed, Undecided]), Reversed);
        assert_eq!(both(&[Holds, Equal]), Equal);
        assert_eq!(both(&[]), NotTested);
        // The simultaneous intervals do not support the contradiction.
        assert_eq!(
            conjunction(&[Holds, Reversed], &[Holds, Undecided]),
            Undecided
        );
        // A part that holds at its own level does not contradict the claim, although it is equal at the simultaneous
        // level.
        assert_eq!(conjunction(&[Holds, Holds], &[Equal, Holds]), Holds);
        assert_eq!(
            conjunction(&[HoldsWeaker, Undecided], &[Equal, Undecided]),
            Undecided
        );
        assert_eq!(conjunction(&[Holds, Equal], &[Equal, Equal]), Equal);
        // A claim that holds needs no correction.
        assert_eq!(conjunction(&[Holds, Holds], &[Undecided, Undecided]), Holds);
    }

    #[test]
    fn a_remark_counts_the_reversed_parts() {
        assert_eq!(
            remark(&[Holds, Holds, Reversed], 3),
            "holds at 2 of 3, reversed at 1"
        );
        assert_eq!(remark(&[Holds, Holds], 3), "1 of 3 not measured");
        assert_eq!(remark(&[Holds, Holds], 2), "");
        assert_eq!(remark(&[], 2), "");
    }
}
