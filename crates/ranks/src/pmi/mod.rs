//! Rendezvous through the key-value store of a job: rank 0 stores its address, and the other ranks read the address.
//!
//! [`KeyValueStore`] is the required interface of a store. [`Pmi1`] implements it for PMI-1, the wire protocol between
//! MPICH's `mpiexec` and its processes (P. Balaji et al., "PMI: A scalable parallel process-management interface for
//! extreme-scale systems", EuroMPI 2010): lines of `name=value`, one answer for each request, on the descriptor
//! `PMI_FD`. Every wait has a deadline, also the wait for the barrier, for which the protocol has no time limit.

mod wire;

pub use wire::DescriptorWire;

/// The variable with the number of the file descriptor.
pub const DESCRIPTOR: &str = "PMI_FD";

/// The key of the rendezvous address.
const KEY: &str = "fathometer-rendezvous";

/// The maximum length of a line, in bytes. It is larger than PMI-1's longest value together with the names.
const LONGEST_LINE: usize = 4096;

/// The reason why the store returns no rendezvous address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PmiError {
    /// The launcher does not answer.
    #[error(
        "the launcher did not answer {request} in time: check that all ranks were started, or set a longer \
         --rendezvous-timeout"
    )]
    Late {
        /// The request.
        request: String,
    },
    /// The connection to the launcher was closed or failed.
    #[error("the connection to the launcher is lost: {0}")]
    Ended(String),
    /// The answer is malformed, or refuses the request.
    #[error("the launcher answered {request} with {answer:?}; set --rendezvous HOST:PORT instead")]
    Answer {
        /// The request.
        request: String,
        /// The answer.
        answer: String,
    },
    /// The address is too long for the store.
    #[error("{0:?} does not fit the launcher's store; set --rendezvous HOST:PORT instead")]
    Value(String),
    /// Rank 0 has no address to store.
    #[error("{0}")]
    NoPlace(String),
}

/// A store that the processes of one job share.
pub trait KeyValueStore {
    /// Stores a value, which other processes can read after the next barrier.
    ///
    /// # Errors
    /// If the store refuses the value.
    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError>;

    /// Waits until all processes of the job have reached the barrier.
    ///
    /// # Errors
    /// If a process does not reach the barrier in time.
    fn barrier(&mut self) -> Result<(), PmiError>;

    /// Reads a value.
    ///
    /// # Errors
    /// If the store has no value for the key.
    fn get(&mut self, key: &str) -> Result<String, PmiError>;

    /// Ends the use of the store. If a process exits without this call, the launcher treats it as failed.
    ///
    /// # Errors
    /// If the store does not answer.
    fn finalize(&mut self) -> Result<(), PmiError>;
}

/// Returns the rendezvous address for all ranks. At rank 0, `offer` returns this address.
///
/// # Errors
/// If the store fails, or if rank 0 has no address.
pub fn meet(
    store: &mut dyn KeyValueStore,
    rank: u32,
    offer: &dyn Fn() -> Result<String, String>,
) -> Result<String, PmiError> {
    let offered = match rank {
        0 => {
            let place = offer().map_err(PmiError::NoPlace)?;
            store.put(KEY, &place)?;
            Some(place)
        }
        _ => None,
    };
    store.barrier()?;
    let place = match offered {
        Some(place) => place,
        None => store.get(KEY)?,
    };
    store.finalize()?;
    Ok(place)
}

/// Lines to and from a launcher.
pub trait Wire {
    /// Sends a line.
    ///
    /// # Errors
    /// If the line cannot be sent in time.
    fn send(&mut self, line: &str) -> Result<(), PmiError>;

    /// Receives the answer to `request`, without the newline.
    ///
    /// # Errors
    /// If no answer arrives in time.
    fn receive(&mut self, request: &str) -> Result<String, PmiError>;
}

/// The store of PMI-1.
#[derive(Debug)]
pub struct Pmi1<W> {
    wire: W,
    /// The name of the job's key-value store.
    name: String,
    /// The maximum lengths of a key and of a value, in bytes, with the terminating zero.
    longest: (usize, usize),
}

impl<W: Wire> Pmi1<W> {
    /// Opens the store: exchanges versions, and requests the store's limits and name.
    ///
    /// # Errors
    /// If the launcher does not answer, or uses another version.
    pub fn begin(wire: W) -> Result<Pmi1<W>, PmiError> {
        let mut store = Pmi1 {
            wire,
            name: String::new(),
            longest: (0, 0),
        };
        let init = "cmd=init pmi_version=1 pmi_subversion=1";
        let answer = store.request(init, "response_to_init")?;
        if answer.value("pmi_version") != Some("1") {
            return Err(answer.refused());
        }
        let answer = store.request("cmd=get_maxes", "maxes")?;
        let limit = |name| {
            let limit = answer.value(name).and_then(|value| value.parse().ok());
            limit.ok_or_else(|| answer.refused())
        };
        store.longest = (limit("keylen_max")?, limit("vallen_max")?);
        let answer = store.request("cmd=get_my_kvsname", "my_kvsname")?;
        let name = answer.value("kvsname").filter(|name| !name.is_empty());
        store.name = name.ok_or_else(|| answer.refused())?.to_owned();
        Ok(store)
    }

    /// Sends a request. Returns the answer if it has this name and reports success.
    fn request(&mut self, request: &str, name: &str) -> Result<Answer, PmiError> {
        self.wire.send(request)?;
        let answer = Answer {
            request: request.to_owned(),
            line: self.wire.receive(request)?,
        };
        let is_success = answer.value("rc").is_none_or(|code| code == "0");
        match answer.value("cmd") == Some(name) && is_success {
            true => Ok(answer),
            false => Err(answer.refused()),
        }
    }
}

impl<W: Wire> KeyValueStore for Pmi1<W> {
    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let is_word = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'=')
        };
        let fits = key.len() < self.longest.0 && value.len() < self.longest.1;
        if !fits || !is_word(key) || !is_word(value) {
            return Err(PmiError::Value(value.to_owned()));
        }
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.name);
        self.request(&request, "put_result").map(drop)
    }

    fn barrier(&mut self) -> Result<(), PmiError> {
        self.request("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, key: &str) -> Result<String, PmiError> {
        let request = format!("cmd=get kvsname={} key={key}", self.name);
        let answer = self.request(&request, "get_result")?;
        let value = answer.value("value").map(str::to_owned);
        value.ok_or_else(|| answer.refused())
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        self.request("cmd=finalize", "finalize_ack").map(drop)
    }
}

/// An answer of the launcher.
#[derive(Debug)]
struct Answer {
    request: String,
    line: String,
}

impl Answer {
    fn value(&self, name: &str) -> Option<&str> {
        let pairs = self.line.split_ascii_whitespace();
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    fn refused(&self) -> PmiError {
        PmiError::Answer {
            request: self.request.clone(),
            answer: self.line.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
