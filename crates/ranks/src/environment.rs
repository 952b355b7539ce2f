//! Which rank this process is, of how many, and where they meet: from options or from the environment of an engine.
//!
//! Options come first, then Slurm, Kubernetes, Open MPI and PMI. The variables of an engine count only where a place
//! to meet is known, because a job may hold processes that are independent of each other.

use fathometer_load::Share;

use crate::node_list::{self, NodeListError};

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenPlace {
    /// `--rank`.
    pub rank: Option<u32>,
    /// `--ranks`.
    pub ranks: Option<u32>,
    /// `--rendezvous`.
    pub rendezvous: Option<String>,
}

/// The place of a process in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Its share of the test.
    pub share: Share,
    /// Where rank 0 listens, as `host:port`; `None` with one rank, which listens nowhere.
    pub rendezvous: Option<String>,
    /// Where rank and size come from, in words for messages.
    pub source: &'static str,
}

/// The variable with the number of ranks, where an engine has none.
pub const RANKS: &str = "FATHOMETER_RANKS";
/// The variable with the place to meet.
pub const RENDEZVOUS: &str = "FATHOMETER_RENDEZVOUS";
/// The variable with the shared secret.
pub const SECRET: &str = "FATHOMETER_SECRET";

/// The most ranks of a test.
pub const MOST_RANKS: u32 = 4096;

/// Why the place of a process is unknown or impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A number is malformed.
    #[error("{name} is {value:?}, which is not a whole number")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// One of two values that belong together is missing.
    #[error("{given} is set and {missing} is not: set both")]
    Missing {
        /// What is set.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// The rank is not below the number of ranks, or there are no or too many ranks.
    #[error(
        "there is no rank {rank} of {ranks} ranks: ranks count from 0, and at most {MOST_RANKS} are supported"
    )]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// There are several ranks, and no place to meet.
    #[error(
        "this is rank {rank} of {ranks} ({source_of}), and no place to meet is known: set --rendezvous HOST:PORT (or \
         {RENDEZVOUS}), where rank 0 listens, on every rank; or use --rank 0 --ranks 1 for a test of its own in every \
         process"
    )]
    NoRendezvous {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
        /// Where these come from.
        source_of: &'static str,
    },
    /// The place to meet has no port.
    #[error("the rendezvous {0:?} is not HOST:PORT")]
    NoPort(String),
    /// Slurm's list of nodes is malformed.
    #[error("failed to read SLURM_JOB_NODELIST: {0}; set --rendezvous HOST:PORT instead")]
    NodeList(#[from] NodeListError),
}

/// The ports from which a Slurm job takes one, by its number: below those that Linux gives to clients.
const SLURM_PORTS: (u32, u32) = (20_000, 10_000);

/// Finds the place of this process. `None`: a test of its own. `variable` reads the environment.
///
/// # Errors
/// If a value is malformed, if values contradict each other, or if several ranks have no place to meet.
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
            let Some(found) = of_engine(size, rendezvous.is_some(), &read)? else {
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

/// The name of Slurm as a source.
const SLURM: &str = "SLURM_PROCID and SLURM_NTASKS";

type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Rank and size from the first engine whose variables are set. `size` is that of `--ranks`.
fn of_engine(
    size: Option<u32>,
    may_meet: bool,
    read: Read<'_>,
) -> Result<Option<(u32, u32, &'static str)>, PlaceError> {
    let pair = |rank_name, size_name, source| {
        let rank = number(rank_name, read)?;
        let ranks = match size {
            Some(size) => Some(size),
            None => number(size_name, read)?,
        };
        Ok(rank.zip(ranks).map(|(rank, ranks)| (rank, ranks, source)))
    };
    // Every process below Slurm has these, those of `sbatch` itself too, with one task.
    if let Some(found) = pair("SLURM_PROCID", "SLURM_NTASKS", SLURM)? {
        return Ok(Some(found));
    }
    // An Indexed Job has an index, and no size.
    let job = pair(
        "JOB_COMPLETION_INDEX",
        RANKS,
        "JOB_COMPLETION_INDEX and FATHOMETER_RANKS",
    )?;
    if job.is_some() {
        return Ok(job);
    }
    if may_meet && number("JOB_COMPLETION_INDEX", read)?.is_some() {
        return Err(PlaceError::Missing {
            given: "JOB_COMPLETION_INDEX",
            missing: RANKS,
        });
    }
    // Programs below mpirun may be unrelated to each other, as benchmarks of one node often are.
    if !may_meet && size.is_none() {
        return Ok(None);
    }
    let mpi = "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE";
    if let Some(found) = pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", mpi)? {
        return Ok(Some(found));
    }
    pair("PMI_RANK", "PMI_SIZE", "PMI_RANK and PMI_SIZE")
}

/// The default place to meet of a Slurm job: the first node of its list, and a port that its number selects.
fn of_slurm(source: &str, read: Read<'_>) -> Result<Option<String>, PlaceError> {
    if source != SLURM {
        return Ok(None);
    }
    let (Some(list), Some(job)) = (read("SLURM_JOB_NODELIST"), number("SLURM_JOB_ID", read)?)
    else {
        return Ok(None);
    };
    let first = node_list::expand(&list)?.swap_remove(0);
    // Steps of one job may run beside each other.
    let step = number("SLURM_STEP_ID", read)?.unwrap_or(0);
    let (base, ports) = SLURM_PORTS;
    let port = base + job.wrapping_mul(13).wrapping_add(step) % ports;
    Ok(Some(format!("{first}:{port}")))
}

fn number(name: &'static str, read: Read<'_>) -> Result<Option<u32>, PlaceError> {
    let Some(value) = read(name) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(PlaceError::NotANumber { name, value }),
    }
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
        // Options come before every engine.
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
        // Slurm before Open MPI, whose variables `srun` passes on.
        let both: Vec<_> = SLURM_JOB.into_iter().chain(OPEN_MPI).collect();
        assert_eq!(place(NOTHING, &both), some(2, 3, "node07:23013"));
    }

    #[test]
    fn variables_of_an_engine_without_a_place_to_meet_are_a_test_of_its_own_or_an_error() {
        let solo = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
        assert_eq!(place(NOTHING, &solo), Ok(Some((0, 1, None))));
        let error = place(NOTHING, &SLURM_JOB[..2]).unwrap_err();
        assert!(
            error.contains("rank 2 of 3") && error.contains("--rendezvous HOST:PORT"),
            "{error}"
        );
        assert_eq!(place(NOTHING, &OPEN_MPI), Ok(None));
        let error = place((None, Some(4), None), &OPEN_MPI).unwrap_err();
        assert!(error.contains("rank 1 of 4"), "{error}");
        assert_eq!(place(NOTHING, &INDEXED_JOB[..1]), Ok(None));
    }

    #[test]
    fn a_place_that_contradicts_itself_is_an_error() {
        for (given, variables, why) in [
            ((Some(1), None, None), &[][..], "--ranks is not"),
            ((None, Some(2), Some("a:1")), &[], "--rank is not"),
            ((Some(2), Some(2), Some("a:1")), &[], "no rank 2 of 2"),
            ((Some(0), Some(0), None), &[], "no rank 0 of 0"),
            ((Some(0), Some(5000), Some("a:1")), &[], "at most 4096"),
            ((Some(0), Some(2), None), &[], "no place to meet"),
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
                "FATHOMETER_RANKS is not",
            ),
        ] {
            let error = place(given, variables).unwrap_err();
            assert!(error.contains(why), "{given:?}: {error}");
        }
    }
}
