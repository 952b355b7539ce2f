//! The choice of the counted packets, and the reports of a capture about dropped packets.
//!
//! This program's captures contain every packet twice, where the packet enters and where it leaves the path, at four
//! interfaces: `client.tx` → `server.rx` and `server.tx` → `client.rx`. Counting at all four interfaces would count
//! every packet twice. The papers counted at the client. Two more interfaces, `up.drop` and `down.drop`, repeat packets
//! that a queue dropped after it had accepted them. These repetitions are reports and are never counted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The counted interfaces of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TapChoice {
    /// `client.tx` and `client.rx`, and every interface that is not a tap of a path.
    #[default]
    Client,
    /// `server.tx` and `server.rx`, and every interface that is not a tap of a path.
    Server,
    /// Every interface, except `up.drop` and `down.drop`.
    All,
    /// Only the interface with this name.
    Interface(String),
}

impl TapChoice {
    /// Whether packets of an interface are counted.
    pub fn counts(&self, interface: Option<&str>) -> bool {
        let role = interface.and_then(TapRole::of);
        match self {
            TapChoice::Client => role.is_none_or(TapRole::is_client),
            TapChoice::Server => role.is_none_or(TapRole::is_server),
            TapChoice::All => role.is_none_or(|role| role.is_client() || role.is_server()),
            TapChoice::Interface(name) => interface == Some(name),
        }
    }
}

/// Parses `client`, `server`, `all`, or the name of an interface.
impl FromStr for TapChoice {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<TapChoice, Self::Err> {
        Ok(match text {
            "client" => TapChoice::Client,
            "server" => TapChoice::Server,
            "all" => TapChoice::All,
            name => TapChoice::Interface(name.to_owned()),
        })
    }
}

impl fmt::Display for TapChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TapChoice::Client => "client",
            TapChoice::Server => "server",
            TapChoice::All => "all",
            TapChoice::Interface(name) => name,
        })
    }
}

/// The taps of this program's captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapRole {
    /// Packets that the client sends into the path.
    ClientSends,
    /// Packets that leave the path at the server.
    ServerReceives,
    /// Packets that the server sends into the path.
    ServerSends,
    /// Packets that leave the path at the client.
    ClientReceives,
    /// Packets dropped in a queue towards the server.
    DroppedUp,
    /// Packets dropped in a queue towards the client.
    DroppedDown,
}

impl TapRole {
    /// Returns the role of an interface, by its name.
    pub fn of(interface: &str) -> Option<TapRole> {
        match interface {
            "client.tx" => Some(TapRole::ClientSends),
            "server.rx" => Some(TapRole::ServerReceives),
            "server.tx" => Some(TapRole::ServerSends),
            "client.rx" => Some(TapRole::ClientReceives),
            "up.drop" => Some(TapRole::DroppedUp),
            "down.drop" => Some(TapRole::DroppedDown),
            _ => None,
        }
    }

    /// Whether the tap is at the client's end.
    pub fn is_client(self) -> bool {
        matches!(self, TapRole::ClientSends | TapRole::ClientReceives)
    }

    /// Whether the tap is at the server's end.
    pub fn is_server(self) -> bool {
        matches!(self, TapRole::ServerSends | TapRole::ServerReceives)
    }

    /// Whether packets pass the tap before the path can drop them.
    pub fn is_sender(self) -> bool {
        matches!(self, TapRole::ClientSends | TapRole::ServerSends)
    }

    /// Whether the packets of the tap go from the client to the server.
    pub fn is_up(self) -> bool {
        matches!(
            self,
            TapRole::ClientSends | TapRole::ServerReceives | TapRole::DroppedUp
        )
    }
}

/// The content of the path's comments on a packet: the cause of a drop, and the length of the queue.
///
/// A comment is a list of `key=value` words separated by spaces, as in `drop=loss queue_packets=3 queue_bytes=4500`.
/// Unknown keys are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathComment<'a> {
    /// The cause of the drop.
    pub drop: Option<&'a str>,
    /// Number of packets in the queue when this packet arrived.
    pub queue_packets: Option<u64>,
    /// Number of bytes in the queue when this packet arrived.
    pub queue_bytes: Option<u64>,
}

impl<'a> PathComment<'a> {
    /// Adds one comment to the earlier comments of the packet.
    pub fn read(&mut self, comment: &'a str) {
        for word in comment.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("drop", cause)) if !cause.is_empty() => self.drop = Some(cause),
                Some(("queue_packets", number)) => self.queue_packets = number.parse().ok(),
                Some(("queue_bytes", number)) => self.queue_bytes = number.parse().ok(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_side_is_counted_unless_told_otherwise() {
        let counted = |choice: &str| -> Vec<&str> {
            let choice: TapChoice = choice.parse().unwrap();
            [
                "client.tx",
                "server.rx",
                "server.tx",
                "client.rx",
                "up.drop",
                "eth0",
            ]
            .into_iter()
            .filter(|name| choice.counts(Some(name)))
            .collect()
        };
        assert_eq!(counted("client"), ["client.tx", "client.rx", "eth0"]);
        assert_eq!(counted("server"), ["server.rx", "server.tx", "eth0"]);
        assert_eq!(counted("all").len(), 5);
        assert_eq!(counted("eth0"), ["eth0"]);
        assert!(TapChoice::Client.counts(None));
        assert!(!TapChoice::Interface("eth0".to_owned()).counts(None));
    }

    #[test]
    fn comments_are_read_word_by_word() {
        let mut comment = PathComment::default();
        comment.read("seen drop=loss queue_packets=3 colour=red");
        comment.read("queue_bytes=4500 drop= queue_packets=many");
        assert_eq!(comment.drop, Some("loss"));
        assert_eq!(comment.queue_packets, None);
        assert_eq!(comment.queue_bytes, Some(4500));
    }
}
