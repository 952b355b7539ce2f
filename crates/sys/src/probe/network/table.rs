//! All TCP sockets of a namespace, counted by state.

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use super::connection::{SocketMemory, TcpState};
use super::diagnosis::{Answer, MEMORY};

/// The numbers of TCP sockets by state, and their kernel memory. A count of 0 is a measured value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketTable {
    /// ESTABLISHED.
    pub established: u64,
    /// SYN_SENT.
    pub syn_sent: u64,
    /// SYN_RECV: half-open, not yet accepted by a program.
    pub syn_received: u64,
    /// FIN_WAIT1.
    pub fin_wait_1: u64,
    /// FIN_WAIT2.
    pub fin_wait_2: u64,
    /// TIME_WAIT.
    pub time_wait: u64,
    /// CLOSE: neither bound nor connected, or just closed.
    pub closed: u64,
    /// CLOSE_WAIT: the peer has closed its side, the local program has not.
    pub close_wait: u64,
    /// LAST_ACK.
    pub last_ack: u64,
    /// LISTEN.
    pub listening: u64,
    /// CLOSING.
    pub closing: u64,
    /// Kernel memory for received data, including overhead.
    pub receive_memory: Bytes,
    /// Kernel memory for data to be sent or acknowledged, including overhead.
    pub send_memory: Bytes,
    /// Received data that no program has read yet, in bytes of the stream.
    pub unread: Bytes,
    /// Data that the peer has not acknowledged yet, in bytes of the stream.
    pub unacknowledged: Bytes,
    /// Connections that wait in listeners' queues to be accepted.
    pub to_be_accepted: u64,
}

impl SocketTable {
    /// Counts one more socket.
    pub(super) fn count(&mut self, answer: &Answer<'_>) {
        let state = TcpState::of(answer.state());
        *self.place(state) += 1;
        let receive = u64::from(answer.receive_queue());
        if state == TcpState::Listening {
            self.to_be_accepted += receive;
            return;
        }
        self.unread += Bytes(receive);
        self.unacknowledged += Bytes(u64::from(answer.send_queue()));
        if let Some(memory) = answer.attribute(MEMORY).and_then(SocketMemory::parse) {
            self.receive_memory += memory.receive;
            self.send_memory += memory.send;
        }
    }

    fn place(&mut self, state: TcpState) -> &mut u64 {
        match state {
            TcpState::Established => &mut self.established,
            TcpState::SynSent => &mut self.syn_sent,
            TcpState::SynReceived => &mut self.syn_received,
            TcpState::FinWait1 => &mut self.fin_wait_1,
            TcpState::FinWait2 => &mut self.fin_wait_2,
            TcpState::TimeWait => &mut self.time_wait,
            TcpState::Closed => &mut self.closed,
            TcpState::CloseWait => &mut self.close_wait,
            TcpState::LastAck => &mut self.last_ack,
            TcpState::Listening => &mut self.listening,
            TcpState::Closing => &mut self.closing,
        }
    }
}
