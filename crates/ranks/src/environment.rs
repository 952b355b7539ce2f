//! The rank of this process, the number of ranks and their rendezvous, from options or from a launcher's environment.
//!
//! The order of precedence is: options, Slurm, Kubernetes, Open MPI, PMI. The variables of all launchers must agree.
//! For example, `mpirun` in a Slurm batch job starts processes that all have Slurm's rank 0, which is an error. It is
//! also an error if one of several processes has no rendezvous. So no process starts a separate test by mistake.

use fathometer_load::Share;

pub use crate::engine::{MOST_RANKS, PMI, PlaceError, RANKS, RENDEZVOUS};
use crate::engine::{of_engine, of_slurm};

/// The command-line options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenPlace {
    /// `--rank`.
    pub rank: Option<u32>,
    /// `--ranks`.
    pub ranks: Option<u32>,
    /// `--rendezvous`.
    pub rendezvous: Option<String>,
}

/// The rank of a process in a test, and the rendezvous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The process's share of the test.
    pub share: Share,
    /// The address on which rank 0 listens, as `host:port`; `None` for a single rank, which does not listen.
    pub rendezvous: Option<String>,
    /// The source of the rank and the number of ranks, for messages.
    pub source: &'static str,
}

/// The variable for the shared secret.
pub const SECRET: &str = "FATHOMETER_SECRET";

/// Determines the placement of this process; `None` if the test has only this process. `variable` reads the
/// environment.
///
/// # Errors
/// If a value is malformed, if values contradict each other, or if several ranks have no rendezvous.
pub fn placement(
    given: &GivenPlace,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Placement>, PlaceError> {
    let read = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let rendezvous = given.rendezvous.clone().or_else(|| read(RENDEZVOUS));
    let (rank, ranks, source) = match (given.rank, given.ranks) {
        (Some(rank), Some(ranks)) => (rank, ranks, "--rank and --ranks"),
        (Some(_), None) => {
            return Err(PlaceError::Missing {
                given: "--rank",
                missing: "--ranks",
            });
        }
        (None, size) => {
            let Some(found) = of_engine(size, &read)? else {
                if size.is_some_and(|size| size > 1) {
                    return Err(PlaceError::Missing {
                        given: "--ranks",
                        missing: "--rank",
                    });
                }
                return Ok(None);
            };
            found
        }
    };
    let share = Share::new(rank, ranks).filter(|_| ranks <= MOST_RANKS);
    let share = share.ok_or(PlaceError::NoSuchRank { rank, ranks })?;
    if ranks == 1 {
        return Ok(Some(Placement {
            share,
            rendezvous: None,
            source,
        }));
    }
    let rendezvous = match rendezvous {
        Some(place) => place,
        None => of_slurm(source, &read)?.ok_or(PlaceError::NoRendezvous {
            rank,
            ranks,
            source_of: source,
        })?,
    };
    let port = rendezvous
        .rsplit_once(':')
        .map(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    if port != Some(true) {
        return Err(PlaceError::NoPort(rendezvous));
    }
    Ok(Some(Placement {
        share,
        rendezvous: Some(rendezvous),
        source,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(
        (rank, ranks, rendezvous): (Option<u32>, Option<u32>, Option<&str>),
        variables: &[(&str, &str)],
    ) -> Result<Option<(u32, u32, Option<String>)>, String> {
        let given = GivenPlace {
            rank,
            ranks,
            rendezvous: rendezvous.map(str::to_owned),
        };
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|&(_, value)| value.to_owned())
        };
        placement(&given, &variable)
            .map(|place| {
                place.map(|place| (place.share.rank(), place.share.ranks(), place.rendezvous))
            })
            .map_err(|error| error.to_string())
    }

    const NOTHING: (Option<u32>, Option<u32>, Option<&str>) = (None, None, None);
    const SLURM_JOB: [(&str, &str); 4] = [
        ("SLURM_PROCID", "2"),
        ("SLURM_NTASKS", "3"),
        ("SLURM_JOB_NODELIST", "node[07-09],gpu1"),
        ("SLURM_JOB_ID", "1001"),
    ];
    const INDEXED_JOB: [(&str, &str); 3] = [
        ("JOB_COMPLETION_INDEX", "1"),
        (RANKS, "2"),
        (RENDEZVOUS, "load-0.load:7000"),
    ];
    const OPEN_MPI: [(&str, &str); 2] =
        [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];

    #[test]
    fn each_engine_gives_rank_size_and_rendezvous() {
        let some = |rank, ranks, place: &str| Ok(Some((rank, ranks, Some(place.to_owned()))));
        let with = |variables: &[(&'static str, &'static str)], more| {
            let mut all = variables.to_vec();
            all.push((RENDEZVOUS, more));
            all
        };
        assert_eq!(place(NOTHING, &[]), Ok(None));
        let given = (Some(1), Some(2), Some("here:7000"));
        assert_eq!(place(given, &[]), some(1, 2, "here:7000"));
        // Options take precedence over every launcher.
        assert_eq!(place(given, &SLURM_JOB), some(1, 2, "here:7000"));
        assert_eq!(place(NOTHING, &SLURM_JOB), some(2, 3, "node07:23013"));
        let elsewhere = (None, None, Some("other:7000"));
        assert_eq!(place(elsewhere, &SLURM_JOB), some(2, 3, "other:7000"));
        assert_eq!(place(NOTHING, &INDEXED_JOB), some(1, 2, "load-0.load:7000"));
        assert_eq!(place(NOTHING, &with(&OPEN_MPI, "a:1")), some(1, 4, "a:1"));
        let pmi = [
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "2"),
            (RENDEZVOUS, "[::1]:9"),
        ];
        assert_eq!(place(NOTHING, &pmi), some(0, 2, "[::1]:9"));
        // Slurm takes precedence over Open MPI, whose variables agree.
        let agreed = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "3")];
        let both: Vec<_> = SLURM_JOB.into_iter().chain(agreed).collect();
        assert_eq!(place(NOTHING, &both), some(2, 3, "node07:23013"));
        // Two sources may state the same number of ranks.
        let twice = (None, Some(4), Some("a:1"));
        assert_eq!(place(twice, &OPEN_MPI), some(1, 4, "a:1"));
    }

    #[test]
    fn one_of_several_without_a_place_to_meet_is_an_error_and_one_of_one_a_test_of_its_own() {
        for solo in [
            [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")],
            [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")],
            [("JOB_COMPLETION_INDEX", "0"), (RANKS, "1")],
        ] {
            assert_eq!(place(NOTHING, &solo), Ok(Some((0, 1, None))));
        }
        let pmi = [("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        for (several, which) in [
            (&SLURM_JOB[..2], "rank 2 of 3"),
            (&OPEN_MPI, "rank 1 of 4 (OMPI_COMM_WORLD_RANK"),
            (&INDEXED_JOB[..2], "rank 1 of 2"),
            (&pmi, "rank 1 of 2 (PMI_RANK"),
        ] {
            let error = place(NOTHING, several).unwrap_err();
            assert!(
                error.contains(which) && error.contains("--rendezvous HOST:PORT"),
                "{error}"
            );
            // Options select a test with a single process.
            let solo = (Some(0), Some(1), None);
            assert_eq!(place(solo, several), Ok(Some((0, 1, None))));
        }
    }

    #[test]
    fn sources_that_disagree_about_rank_or_size_are_an_error() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        let of_mpi: Vec<_> = batch.into_iter().chain(OPEN_MPI).collect();
        let alone = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
        let in_one_task: Vec<_> = alone.into_iter().chain(OPEN_MPI).collect();
        let declared: Vec<_> = OPEN_MPI.into_iter().chain([(RANKS, "3")]).collect();
        let meet = (None, None, Some("a:1"));
        let three = (None, Some(3), Some("a:1"));
        for (given, variables, why) in [
            (
                meet,
                &of_mpi,
                "rank 0 of 4 (SLURM_PROCID and SLURM_NTASKS), and rank 1 of 4 (OMPI_COMM_WORLD_RANK",
            ),
            (NOTHING, &in_one_task, "rank 0 of 1"),
            (
                meet,
                &declared,
                "OMPI_COMM_WORLD_SIZE is 4 and FATHOMETER_RANKS is 3",
            ),
            (
                three,
                &OPEN_MPI.to_vec(),
                "--ranks is 3 and OMPI_COMM_WORLD_SIZE is 4",
            ),
            (
                three,
                &INDEXED_JOB.to_vec(),
                "--ranks is 3 and FATHOMETER_RANKS is 2",
            ),
        ] {
            let error = place(given, variables).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_place_that_contradicts_itself_is_an_error() {
        for (given, variables, why) in [
            ((Some(1), None, None), &[][..], "--ranks is not"),
            ((None, Some(2), Some("a:1")), &[], "--rank is not"),
            ((Some(2), Some(2), Some("a:1")), &[], "no rank 2 of 2"),
            ((Some(0), Some(0), None), &[], "no rank 0 of 0"),
            ((Some(0), Some(5000), Some("a:1")), &[], "at most 4096"),
            ((Some(0), Some(2), None), &[], "no rendezvous is known"),
            ((Some(0), Some(2), Some("host")), &[], "not HOST:PORT"),
            ((Some(0), Some(2), Some(":80")), &[], "not HOST:PORT"),
            ((Some(0), Some(2), Some("host:0")), &[], "not HOST:PORT"),
            (
                NOTHING,
                &[("SLURM_PROCID", "x"), ("SLURM_NTASKS", "2")],
                "SLURM_PROCID is \"x\"",
            ),
            (
                (None, None, Some("a:1")),
                &INDEXED_JOB[..1],
                "FATHOMETER_RANKS is not: set it to the number of pods",
            ),
        ] {
            let error = place(given, variables).unwrap_err();
            assert!(error.contains(why), "{given:?}: {error}");
        }
    }
}
