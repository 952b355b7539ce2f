//! The share of a study that this process measures, from options or from a launcher's environment.
//!
//! The shares of a study need no communication, so there is no rendezvous. The order of precedence is: options, a Slurm
//! array, the tasks of a Slurm step, a Kubernetes Indexed Job.

use fathometer_load::Share;

use crate::engine::{MOST_RANKS, PlaceError, RANKS, Read, number};

/// A share and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StudyPlace {
    /// The rank, and the number of ranks, which is larger than 1.
    pub share: Share,
    /// The source of both numbers, for messages.
    pub source: &'static str,
}

/// The reason why the share is unknown or impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StudyShareError {
    /// A value is malformed or missing, or the rank does not exist.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The indexes of a Slurm array are not evenly spaced.
    #[error(
        "the indexes of the Slurm array are not evenly spaced, so that index {index} has no rank: submit it with \
         --array=0-{last}, or set --rank and --ranks"
    )]
    UnevenArray {
        /// The index of this task.
        index: u32,
        /// The last index that the array would have if its indexes began at 0 with step 1.
        last: u32,
    },
    /// `--ranks` differs from the number of tasks of the array.
    #[error(
        "--ranks is {ranks}, and the Slurm array has {tasks} tasks: leave out --ranks, or set --rank too"
    )]
    OtherSize {
        /// The value of the option.
        ranks: u32,
        /// The number of tasks of the array.
        tasks: u32,
    },
}

/// Determines the share of this process; `None` if it measures the whole study. `rank` and `ranks` are the options of
/// these names, and `variable` reads the environment. `--ranks 1` selects the whole study in any environment.
///
/// # Errors
/// If a value is malformed, or values contradict each other.
pub fn study_place(
    rank: Option<u32>,
    ranks: Option<u32>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<StudyPlace>, StudyShareError> {
    let read = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let missing = |given, missing| PlaceError::Missing { given, missing };
    let found = match (rank, ranks) {
        (Some(rank), Some(ranks)) => Some((rank, ranks, "--rank and --ranks")),
        (Some(_), None) => return Err(missing("--rank", "--ranks").into()),
        (None, Some(1)) => None,
        (None, size) => match of_engine(size, &read)? {
            None if size.is_some() => return Err(missing("--ranks", "--rank").into()),
            found => found,
        },
    };
    let Some((rank, ranks, source)) = found else {
        return Ok(None);
    };
    let share = Share::new(rank, ranks).filter(|_| ranks <= MOST_RANKS);
    let share = share.ok_or(PlaceError::NoSuchRank { rank, ranks })?;
    Ok((ranks > 1).then_some(StudyPlace { share, source }))
}

/// Returns the rank and the number of ranks from the first launcher whose variables are set.
fn of_engine(
    size: Option<u32>,
    read: Read<'_>,
) -> Result<Option<(u32, u32, &'static str)>, StudyShareError> {
    if let Some((rank, tasks)) = of_array(read)? {
        return match size {
            Some(ranks) if ranks != tasks => Err(StudyShareError::OtherSize { ranks, tasks }),
            _ => Ok(Some((rank, tasks, "the Slurm array"))),
        };
    }
    let pair = |rank_name, size_name, source| {
        let rank = number(rank_name, read)?;
        let ranks = match size {
            Some(size) => Some(size),
            None => number(size_name, read)?,
        };
        Ok::<_, PlaceError>(rank.zip(ranks).map(|(rank, ranks)| (rank, ranks, source)))
    };
    // In a batch script, SLURM_NTASKS is the number of tasks that the script's steps may have, and the script is rank
    // 0. Only srun sets the number of tasks of a step.
    let step = match number("SLURM_STEP_NUM_TASKS", read)? {
        Some(_) => pair(
            "SLURM_PROCID",
            "SLURM_STEP_NUM_TASKS",
            "the tasks of the Slurm step",
        )?,
        None => None,
    };
    if step.is_some() {
        return Ok(step);
    }
    let job = pair("JOB_COMPLETION_INDEX", RANKS, "the Indexed Job")?;
    Ok(job)
}

/// Returns the rank and the number of ranks for a task of a Slurm array. The indexes may begin at any number, and their
/// step may be larger than 1.
fn of_array(read: Read<'_>) -> Result<Option<(u32, u32)>, StudyShareError> {
    let Some(index) = number("SLURM_ARRAY_TASK_ID", read)? else {
        return Ok(None);
    };
    let Some(count) = number("SLURM_ARRAY_TASK_COUNT", read)? else {
        return Ok(None);
    };
    let min = number("SLURM_ARRAY_TASK_MIN", read)?.unwrap_or(0);
    let max = number("SLURM_ARRAY_TASK_MAX", read)?;
    let last = count.saturating_sub(1);
    // Computes the step from the first and the last index. The variable for the step is always 1 for a list of indexes,
    // even if the list has gaps.
    let step = match (max, last) {
        (Some(max), 1..) => max.saturating_sub(min) / last,
        _ => 1,
    };
    let uneven = StudyShareError::UnevenArray { index, last };
    let is_last = max.is_none_or(|max| min.checked_add(step * last) == Some(max));
    let steps = index
        .checked_sub(min)
        .filter(|steps| step > 0 && steps % step == 0);
    match steps.filter(|_| is_last) {
        Some(steps) => Ok(Some((steps / step, count))),
        None => Err(uneven),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(
        rank: Option<u32>,
        ranks: Option<u32>,
        variables: &[(&str, &str)],
    ) -> Result<Option<(u32, u32)>, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|&(_, value)| value.to_owned())
        };
        let place = study_place(rank, ranks, &variable).map_err(|error| error.to_string())?;
        Ok(place.map(|place| (place.share.rank(), place.share.ranks())))
    }

    fn array([index, count, min, max]: [&str; 4]) -> [(&'static str, &str); 6] {
        [
            ("SLURM_ARRAY_TASK_ID", index),
            ("SLURM_ARRAY_TASK_COUNT", count),
            ("SLURM_ARRAY_TASK_MIN", min),
            ("SLURM_ARRAY_TASK_MAX", max),
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
        ]
    }

    #[test]
    fn each_engine_gives_rank_and_size_of_a_share() {
        assert_eq!(place(None, None, &[]), Ok(None));
        assert_eq!(place(Some(1), Some(3), &[]), Ok(Some((1, 3))));
        // --array=0-3, --array=1-4, --array=1-7:2.
        for (values, rank) in [
            (["2", "4", "0", "3"], 2),
            (["4", "4", "1", "4"], 3),
            (["5", "4", "1", "7"], 2),
        ] {
            assert_eq!(place(None, None, &array(values)), Ok(Some((rank, 4))));
        }
        let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")];
        assert_eq!(place(None, None, &step), Ok(Some((1, 2))));
        let job = [("JOB_COMPLETION_INDEX", "1"), (RANKS, "2")];
        assert_eq!(place(None, None, &job), Ok(Some((1, 2))));
        assert_eq!(place(None, Some(5), &job[..1]), Ok(Some((1, 5))));
        // Options take precedence over the array.
        let array = array(["2", "4", "0", "3"]);
        assert_eq!(place(Some(0), Some(2), &array), Ok(Some((0, 2))));
    }

    #[test]
    fn one_of_one_is_the_whole_study() {
        let solo = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(place(None, None, &solo), Ok(None));
        // The environment of a batch script, whose job has several tasks.
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(place(None, None, &batch), Ok(None));
        assert_eq!(place(Some(0), Some(1), &[]), Ok(None));
        assert_eq!(place(None, Some(1), &array(["2", "4", "0", "3"])), Ok(None));
        // An index without a number of ranks may have another meaning, so it is ignored.
        assert_eq!(
            place(None, None, &[("JOB_COMPLETION_INDEX", "1")]),
            Ok(None)
        );
    }

    #[test]
    fn a_share_that_contradicts_itself_is_an_error() {
        for (rank, ranks, variables, why) in [
            (Some(1), None, &[][..], "--ranks is not"),
            (None, Some(2), &[], "--rank is not"),
            (Some(2), Some(2), &[], "no rank 2 of 2"),
            (Some(0), Some(0), &[], "no rank 0 of 0"),
            (Some(0), Some(5000), &[], "at most 4096"),
            (None, None, &array(["3", "3", "1", "7"]), "--array=0-2"),
            (None, None, &array(["7", "4", "1", "8"]), "--array=0-3"),
            (None, None, &array(["x", "4", "1", "8"]), "is \"x\""),
            (None, Some(3), &array(["0", "4", "0", "3"]), "has 4 tasks"),
        ] {
            let error = place(rank, ranks, variables).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
