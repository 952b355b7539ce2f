//! The resources that can limit a load on a server.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A resource that can limit a load on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// CPU time of the host: its quota, or all its processors.
    Cpu,
    /// One core, while other cores are idle; the server computes on one thread.
    OneCore,
    /// Memory, for the page cache and for programs.
    Memory,
    /// Operations per second of the disk.
    DiskOperations,
    /// Bytes per second of the disk.
    DiskBytes,
    /// The rate of the link.
    LinkRate,
    /// The round-trip time of the path. It limits exchanges with many round trips, such as short connections and small
    /// windows. It is the only limit for which less is better.
    RoundTrip,
    /// The number of connections that may wait to be accepted.
    Backlog,
    /// The number of connections or requests that the server works on at the same time: workers, threads,
    /// processes.
    Workers,
    /// Waits inside the server that no limit of its host shortens: a lock, a sleep, another server.
    ServerItself,
    /// The load offers no more requests: few users, long pauses, or the rate of an open loop.
    Load,
    /// The load generator. A result that is limited by the generator is no evidence about the server.
    Generator,
    /// The emulator of the path. A result that is limited by the emulator is no evidence about the server.
    Path,
}

impl Resource {
    /// All resources, in the order that tables use.
    pub const ALL: [Resource; 13] = [
        Resource::Cpu,
        Resource::OneCore,
        Resource::Memory,
        Resource::DiskOperations,
        Resource::DiskBytes,
        Resource::LinkRate,
        Resource::RoundTrip,
        Resource::Backlog,
        Resource::Workers,
        Resource::ServerItself,
        Resource::Load,
        Resource::Generator,
        Resource::Path,
    ];

    /// The name in files and on the command line, as in `disk-operations`.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::OneCore => "one-core",
            Resource::Memory => "memory",
            Resource::DiskOperations => "disk-operations",
            Resource::DiskBytes => "disk-bytes",
            Resource::LinkRate => "link-rate",
            Resource::RoundTrip => "round-trip",
            Resource::Backlog => "backlog",
            Resource::Workers => "workers",
            Resource::ServerItself => "server-itself",
            Resource::Load => "load",
            Resource::Generator => "generator",
            Resource::Path => "path",
        }
    }

    /// The name in a sentence, after the word "the", as in `disk's operations per second`.
    pub const fn noun(self) -> &'static str {
        match self {
            Resource::Cpu => "host's CPU time",
            Resource::OneCore => "speed of one core",
            Resource::Memory => "host's memory",
            Resource::DiskOperations => "disk's operations per second",
            Resource::DiskBytes => "disk's bytes per second",
            Resource::LinkRate => "rate of the link",
            Resource::RoundTrip => "round trip time",
            Resource::Backlog => "listen backlog",
            Resource::Workers => "number of workers",
            Resource::ServerItself => "server itself",
            Resource::Load => "load itself",
            Resource::Generator => "load generator",
            Resource::Path => "emulated path",
        }
    }

    /// The meaning of a verdict for this resource, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Resource::Cpu => "requests wait for CPU time of the host",
            Resource::OneCore => {
                "one thread of the server is always busy, while the host has CPU time left that this thread \
                 cannot use"
            }
            Resource::Memory => {
                "the requested files do not fit in the page cache and are read from the disk repeatedly"
            }
            Resource::DiskOperations => {
                "requests wait for the disk, which is at its limit of operations per second"
            }
            Resource::DiskBytes => {
                "requests wait for the disk, which is at its limit of bytes per second"
            }
            Resource::LinkRate => "responses wait for the link, which is always busy",
            Resource::RoundTrip => {
                "connections wait for the peer: for a handshake, for an acknowledgement that opens the window, for \
                 the next request"
            }
            Resource::Backlog => {
                "connections are dropped because the backlog is full, and their clients retry after a second or more"
            }
            Resource::Workers => {
                "every worker is occupied by a connection, and the next connection waits although the host has \
                 CPU time left"
            }
            Resource::ServerItself => {
                "requests wait inside the server for something that is not a resource of its host: a lock, a timer, \
                 another server"
            }
            Resource::Load => "the server answers every request and has capacity left",
            Resource::Generator => "the load generator cannot send more requests",
            Resource::Path => "the emulated path cannot carry packets in time",
        }
    }

    /// The remedy for this limit, in one sentence.
    pub const fn advice(self) -> &'static str {
        match self {
            Resource::Cpu => {
                "give the host more CPU time, or reduce the CPU time per request: persistent \
                 connections, files compressed in advance, another server"
            }
            Resource::OneCore => {
                "run more threads or processes of the server, or use a faster core; more cores alone change nothing"
            }
            Resource::Memory => {
                "give the host memory for the most requested files, or make them smaller; a faster disk only \
                 reduces the effect"
            }
            Resource::DiskOperations => {
                "a disk with more operations per second, fewer and larger files, or memory to cache them"
            }
            Resource::DiskBytes => {
                "a disk with more bytes per second, smaller (compressed) files, or memory to cache them"
            }
            Resource::LinkRate => "a faster link, or fewer bytes: compression, caching, validation",
            Resource::RoundTrip => {
                "fewer round trips: persistent connections, pipelining or multiplexing, larger \
                 windows and send buffers, a server nearer to its users"
            }
            Resource::Backlog => {
                "a longer backlog (the server's setting and net.core.somaxconn), a server that \
                 accepts sooner, or persistent connections"
            }
            Resource::Workers => {
                "more workers, a server that needs none for an idle connection, or a shorter \
                 keep-alive time"
            }
            Resource::ServerItself => {
                "profile the server: find what its threads wait for (locks, timers, an upstream server)"
            }
            Resource::Load => {
                "nothing; to find the server's own limit, use more users or a higher rate"
            }
            Resource::Generator => "more threads or machines for the generator, or a slower host",
            Resource::Path => "a quieter machine, a slower path, or fewer packets",
        }
    }

    /// Whether a run can vary the resource by a step. A resource that cannot be varied is named by
    /// elimination if no other resource is the bottleneck.
    pub const fn can_be_varied(self) -> bool {
        !matches!(
            self,
            Resource::ServerItself | Resource::Generator | Resource::Path
        )
    }

    /// Whether less of the resource is better: a shorter round trip is a relief.
    pub const fn less_is_better(self) -> bool {
        matches!(self, Resource::RoundTrip)
    }

    /// Whether relief of the resource can reduce throughput, as more workers do if memory or processors are short. For
    /// any other limit of the host or the network, a reduced throughput is noise.
    pub const fn can_harm(self) -> bool {
        matches!(self, Resource::Backlog | Resource::Workers | Resource::Load)
    }

    /// Whether the resource is a limit of the host, the server or the network, and not of the load or of the
    /// measuring set-up.
    pub const fn is_a_limit(self) -> bool {
        self.can_be_varied() && !matches!(self, Resource::Load)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a word that is not the name of a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a resource: write one of cpu, one-core, memory, disk-operations, disk-bytes, \
         link-rate, round-trip, backlog, workers, server-itself, load, generator, path"
)]
pub struct UnknownResource(pub String);

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(text: &str) -> Result<Resource, UnknownResource> {
        Resource::ALL
            .into_iter()
            .find(|resource| resource.name() == text)
            .ok_or_else(|| UnknownResource(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_files_and_are_read_back() {
        for resource in Resource::ALL {
            assert_eq!(serde_json::to_value(resource).unwrap(), resource.name());
            assert_eq!(resource.name().parse(), Ok(resource));
        }
        let error = "disk".parse::<Resource>().unwrap_err().to_string();
        for resource in Resource::ALL {
            assert!(error.contains(resource.name()), "{error}");
        }
    }
}
