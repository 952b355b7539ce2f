//! The variables in which a launcher (Slurm, Kubernetes, Open MPI, PMI) states the rank of a process and the number of
//! ranks.

use crate::node_list::{self, NodeListError};

/// The variable for the number of ranks, if the launcher does not state it.
pub const RANKS: &str = "FATHOMETER_RANKS";
/// The variable for the rendezvous address.
pub const RENDEZVOUS: &str = "FATHOMETER_RENDEZVOUS";
/// Maximum number of ranks of a test.
pub const MOST_RANKS: u32 = 4096;

/// The reason why the rank of a process is unknown or impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A number is malformed.
    #[error("{name} is {value:?}, which is not a whole number")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// The value of the variable.
        value: String,
    },
    /// Only one of two variables that must be set together is set.
    #[error("{given} is set and {missing} is not: set both")]
    Missing {
        /// The variable that is set.
        given: &'static str,
        /// The variable that is not set.
        missing: &'static str,
    },
    /// Two sources state different numbers of ranks.
    #[error(
        "{one} is {ranks} and {other} is {others}: start as many processes as the test has ranks, or set both --rank and \
         --ranks"
    )]
    Sizes {
        /// The first source.
        one: &'static str,
        /// The number of ranks in the first source.
        ranks: u32,
        /// The second source.
        other: &'static str,
        /// The number of ranks in the second source.
        others: u32,
    },
    /// Two launchers state different ranks or numbers of ranks for this process.
    #[error(
        "this is rank {} of {} ({one}), and rank {} of {} ({other}): start the ranks with only one of srun and mpirun, \
         or set both --rank and --ranks", place.0, place.1, others.0, others.1
    )]
    Engines {
        /// The variables of the first launcher.
        one: &'static str,
        /// The rank and the number of ranks in the first launcher's variables.
        place: (u32, u32),
        /// The variables of the second launcher.
        other: &'static str,
        /// The rank and the number of ranks in the second launcher's variables.
        others: (u32, u32),
    },
    /// The number of pods of an Indexed Job is not set.
    #[error(
        "JOB_COMPLETION_INDEX is set and {RANKS} is not: set it to the number of pods, or to 1 for a test in \
         the only pod"
    )]
    NoSize,
    /// The rank is not smaller than the number of ranks, or the number of ranks is 0 or too large.
    #[error(
        "there is no rank {rank} of {ranks} ranks: ranks count from 0, and at most {MOST_RANKS} are supported"
    )]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// There are several ranks, but no rendezvous.
    #[error(
        "this is rank {rank} of {ranks} ({source_of}), and no rendezvous is known: set --rendezvous HOST:PORT (or \
         {RENDEZVOUS}), where rank 0 listens, on every rank; or use --rank 0 --ranks 1 for a separate test in every \
         process"
    )]
    NoRendezvous {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
        /// The source of these numbers.
        source_of: &'static str,
    },
    /// The rendezvous has no port.
    #[error("the rendezvous {0:?} is not HOST:PORT")]
    NoPort(String),
    /// Slurm's node list is malformed.
    #[error("failed to read SLURM_JOB_NODELIST: {0}; set --rendezvous HOST:PORT instead")]
    NodeList(#[from] NodeListError),
}

/// The first port and the number of ports for rendezvous of Slurm jobs. They are below Linux's ephemeral ports.
const SLURM_PORTS: (u32, u32) = (20_000, 10_000);

/// The variables in which a launcher states the rank and the number of ranks.
struct Engine {
    rank: &'static str,
    size: &'static str,
    /// The names of both variables, for messages.
    source: &'static str,
}

/// All launchers, in order of precedence: the first whose variables are set is used.
const ENGINES: [Engine; 4] = [
    // Slurm sets these variables for every process, also for the batch script.
    Engine {
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        source: SLURM,
    },
    // An Indexed Job states an index, but not the number of ranks.
    Engine {
        rank: INDEX,
        size: RANKS,
        source: "JOB_COMPLETION_INDEX and FATHOMETER_RANKS",
    },
    Engine {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        source: "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE",
    },
    Engine {
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        source: PMI,
    },
];

/// Slurm's variables, as the source in messages.
const SLURM: &str = "SLURM_PROCID and SLURM_NTASKS";

/// PMI's variables, as the source in messages.
pub const PMI: &str = "PMI_RANK and PMI_SIZE";

/// The variable with the index of a pod of an Indexed Job.
const INDEX: &str = "JOB_COMPLETION_INDEX";

/// A function that reads a variable. It returns `None` if the variable is empty or not set.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the rank and the number of ranks from the first launcher whose variables are set. `size` is the value of
/// `--ranks`.
pub(crate) fn of_engine(
    size: Option<u32>,
    read: Read<'_>,
) -> Result<Option<(u32, u32, &'static str)>, PlaceError> {
    let mut first: Option<(u32, u32, &'static str)> = None;
    for engine in &ENGINES {
        let Some((rank, ranks)) = engine.place(size, read)? else {
            continue;
        };
        match first {
            None => first = Some((rank, ranks, engine.source)),
            Some((other_rank, other_ranks, source))
                if (other_rank, other_ranks) != (rank, ranks) =>
            {
                return Err(PlaceError::Engines {
                    one: source,
                    place: (other_rank, other_ranks),
                    other: engine.source,
                    others: (rank, ranks),
                });
            }
            Some(_) => {}
        }
    }
    Ok(first)
}

impl Engine {
    /// Returns the rank and the number of ranks, if this launcher states them.
    fn place(&self, size: Option<u32>, read: Read<'_>) -> Result<Option<(u32, u32)>, PlaceError> {
        let Some(rank) = number(self.rank, read)? else {
            return Ok(None);
        };
        let own = number(self.size, read)?.map(|ranks| (self.size, ranks));
        let given = size.map(|ranks| ("--ranks", ranks));
        let declared = number(RANKS, read)?.map(|ranks| (RANKS, ranks));
        let mut stated = [given, own, declared].into_iter().flatten();
        let Some((one, ranks)) = stated.next() else {
            return match self.rank {
                INDEX => Err(PlaceError::NoSize),
                _ => Ok(None),
            };
        };
        match stated.find(|&(_, others)| others != ranks) {
            None => Ok(Some((rank, ranks))),
            Some((other, others)) => Err(PlaceError::Sizes {
                one,
                ranks,
                other,
                others,
            }),
        }
    }
}

/// Returns the default rendezvous of a Slurm job: the first node of its list, and a port derived from its job ID and
/// step ID.
pub(crate) fn of_slurm(source: &str, read: Read<'_>) -> Result<Option<String>, PlaceError> {
    if source != SLURM {
        return Ok(None);
    }
    let (Some(list), Some(job)) = (read("SLURM_JOB_NODELIST"), number("SLURM_JOB_ID", read)?)
    else {
        return Ok(None);
    };
    let first = node_list::expand(&list)?.swap_remove(0);
    // Several steps of a job may run at the same time, so each step has its own port.
    let step = number("SLURM_STEP_ID", read)?.unwrap_or(0);
    let (base, ports) = SLURM_PORTS;
    let port = base + job.wrapping_mul(13).wrapping_add(step) % ports;
    Ok(Some(format!("{first}:{port}")))
}

pub(crate) fn number(name: &'static str, read: Read<'_>) -> Result<Option<u32>, PlaceError> {
    let Some(value) = read(name) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(PlaceError::NotANumber { name, value }),
    }
}
