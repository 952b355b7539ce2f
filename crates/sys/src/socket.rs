//! TCP sockets with all options that an experiment needs, and their state in the kernel.
//!
//! A socket stays in the namespace of the thread that creates it; threads in other namespaces may use it. All sockets are
//! non-blocking, and have the standard library's types. The caller decides which options to set, and when.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use fathometer_model::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Result, check};

/// Options set on a socket before it listens or connects. `None` leaves the kernel's default. Connections
/// accepted from a listening socket inherit its options, including `TCP_QUICKACK`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SocketOptions {
    /// `TCP_NODELAY`: whether Nagle's algorithm is off.
    pub no_delay: Option<bool>,
    /// `TCP_QUICKACK`: see [`set_quick_ack`]. [`listen`] sets it once the socket listens. On a connecting
    /// socket it must be set after the connection is established; set earlier, it would delay the last
    /// acknowledgement of the handshake.
    pub quick_ack: Option<bool>,
    /// `TCP_MAXSEG`: the largest segment advertised and sent, in bytes.
    pub max_segment_bytes: Option<u32>,
    /// `TCP_WINDOW_CLAMP`: the largest receive window advertised, in bytes. Kernels since 6.10 reset it at
    /// the first full segment; use [`receive_buffer_bytes`](Self::receive_buffer_bytes) for a lasting limit.
    pub window_clamp_bytes: Option<u32>,
    /// `SO_RCVBUF`, in bytes. The kernel doubles it for its own overhead, limits it to `net.core.rmem_max`
    /// and stops auto-tuning the buffer. The window advertised in the SYN is this value, rounded down to
    /// whole segments.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF`, in bytes. The kernel doubles it, limits it to `net.core.wmem_max` and stops auto-tuning.
    pub send_buffer_bytes: Option<u32>,
    /// `TCP_NOTSENT_LOWAT`: a socket is writable while it has fewer unsent bytes than this.
    pub not_sent_low_water_bytes: Option<u32>,
    /// `SO_REUSEPORT`: several sockets listen on one port and share its connections.
    pub reuse_port: bool,
    /// `TCP_CONGESTION`: the name of a congestion control.
    pub congestion_control: Option<String>,
}

impl SocketOptions {
    /// Returns these options; options that are `None` have the values of `base`.
    pub fn overlaid_on(&self, base: &SocketOptions) -> SocketOptions {
        SocketOptions {
            no_delay: self.no_delay.or(base.no_delay),
            quick_ack: self.quick_ack.or(base.quick_ack),
            max_segment_bytes: self.max_segment_bytes.or(base.max_segment_bytes),
            window_clamp_bytes: self.window_clamp_bytes.or(base.window_clamp_bytes),
            receive_buffer_bytes: self.receive_buffer_bytes.or(base.receive_buffer_bytes),
            send_buffer_bytes: self.send_buffer_bytes.or(base.send_buffer_bytes),
            not_sent_low_water_bytes: self
                .not_sent_low_water_bytes
                .or(base.not_sent_low_water_bytes),
            reuse_port: self.reuse_port || base.reuse_port,
            congestion_control: self
                .congestion_control
                .clone()
                .or_else(|| base.congestion_control.clone()),
        }
    }

    /// Sets all options on a socket.
    pub fn apply(&self, socket: impl AsFd) -> Result<()> {
        let socket = socket.as_fd();
        let flags = [
            (libc::TCP_NODELAY, self.no_delay, "TCP_NODELAY"),
            (libc::TCP_QUICKACK, self.quick_ack, "TCP_QUICKACK"),
        ];
        for (option, value, name) in flags {
            if let Some(value) = value {
                set(socket, libc::IPPROTO_TCP, option, value.into())
                    .doing(format!("set {name}"))?;
            }
        }
        let sizes = [
            (
                libc::IPPROTO_TCP,
                libc::TCP_MAXSEG,
                self.max_segment_bytes,
                "TCP_MAXSEG",
            ),
            (
                libc::IPPROTO_TCP,
                libc::TCP_WINDOW_CLAMP,
                self.window_clamp_bytes,
                "TCP_WINDOW_CLAMP",
            ),
            (
                libc::SOL_SOCKET,
                libc::SO_RCVBUF,
                self.receive_buffer_bytes,
                "SO_RCVBUF",
            ),
            (
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                self.send_buffer_bytes,
                "SO_SNDBUF",
            ),
            (
                libc::IPPROTO_TCP,
                libc::TCP_NOTSENT_LOWAT,
                self.not_sent_low_water_bytes,
                "TCP_NOTSENT_LOWAT",
            ),
        ];
        for (level, option, value, name) in sizes {
            if let Some(value) = value {
                let value = i32::try_from(value).unwrap_or(i32::MAX);
                set(socket, level, option, value).doing(format!("set {name} to {value}"))?;
            }
        }
        if self.reuse_port {
            set(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).doing("set SO_REUSEPORT")?;
        }
        if let Some(name) = &self.congestion_control {
            set_bytes(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_bytes(),
            )
            .doing(format!("set congestion control {name}"))?;
        }
        Ok(())
    }
}

/// Listens on an address, in the calling thread's namespace. `backlog` is the largest number of connections that may wait
/// to be accepted; the kernel limits it to `net.core.somaxconn`.
///
/// A socket on an IPv6 address accepts only IPv6 connections.
pub fn listen(address: SocketAddr, backlog: u32, options: &SocketOptions) -> Result<TcpListener> {
    let socket = open(address)?;
    options.apply(&socket)?;
    // Allows a new server to use a port whose old connections are in TIME_WAIT.
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).doing("set SO_REUSEADDR")?;
    if address.is_ipv6() {
        set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1).doing("set IPV6_V6ONLY")?;
    }
    bind(&socket, address)?;
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    // SAFETY: the descriptor is open.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })
        .doing(format!("listen on {address}"))?;
    if let Some(on) = options.quick_ack {
        // `listen` clears this option, so it is set after `listen`.
        set_quick_ack(&socket, on).doing("set TCP_QUICKACK")?;
    }
    Ok(TcpListener::from(socket))
}

/// Lets other listeners of this user with [`reuse_port`](SocketOptions::reuse_port) bind to this listener's address. Bind
/// the first listener without that option: then no other program shares its port.
pub fn share_port(listener: &TcpListener) -> Result<()> {
    set(listener, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).doing("set SO_REUSEPORT")
}

/// Starts a connection, in the calling thread's namespace, without waiting. When the socket becomes writable,
/// [`TcpStream::take_error`] returns the result.
///
/// `source` sets the local address and, unless it is 0, the local port. An immediate failure (no route, no free port) is
/// returned as the kernel reports it, for [`classify`].
pub fn connect(
    address: SocketAddr,
    source: Option<SocketAddr>,
    options: &SocketOptions,
) -> io::Result<TcpStream> {
    let plain = |error: crate::Error| match error.errno() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(error),
    };
    let socket = open(address).map_err(plain)?;
    options.apply(&socket).map_err(plain)?;
    if let Some(source) = source {
        if source.port() == 0 {
            // The kernel then chooses the port at `connect`, for the given peer, so that connections to
            // different peers can share a local port.
            set(
                socket.as_fd(),
                libc::IPPROTO_IP,
                libc::IP_BIND_ADDRESS_NO_PORT,
                1,
            )?;
        }
        bind(&socket, source).map_err(plain)?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Sends the bytes of several slices that fit into the send buffer, in one call, without waiting.
///
/// `more` announces that more data follow immediately (`MSG_MORE`): the kernel then holds back a partial segment for up to
/// 200 ms. Returns `None` if the buffer is full.
pub fn send_vectored(
    socket: impl AsFd,
    pieces: &[IoSlice<'_>],
    more: bool,
) -> io::Result<Option<usize>> {
    let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if more {
        flags |= libc::MSG_MORE;
    }
    // SAFETY: msghdr is plain data, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len().min(libc::UIO_MAXIOV as usize);
    loop {
        // SAFETY: IoSlice has the layout of iovec by contract, the slices outlive the call, and sendmsg does
        // not write through them.
        let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
        if sent >= 0 {
            return Ok(Some(sent as usize));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(None),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Sends the bytes of one slice that fit into the send buffer, without waiting. Takes less CPU time than
/// [`send_vectored`] with one slice.
pub fn send(socket: impl AsFd, piece: &[u8], more: bool) -> io::Result<Option<usize>> {
    use rustix::net::SendFlags;
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    flags.set(SendFlags::MORE, more);
    loop {
        match rustix::net::send(&socket, piece, flags) {
            Ok(sent) => return Ok(Some(sent)),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends the bytes of a file from `offset` on that fit into the send buffer, at most `length`, without copying them
/// through this program's memory. The socket must be non-blocking. Returns `None` if the buffer is full, and `Some(0)`
/// if the file has no byte at `offset`.
pub fn send_file(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    length: u64,
) -> io::Result<Option<usize>> {
    // The largest length that the kernel accepts in one call.
    let length = length.min(0x7fff_f000) as usize;
    loop {
        let mut offset = offset;
        match rustix::fs::sendfile(&socket, &file, Some(&mut offset), length) {
            Ok(sent) => return Ok(Some(sent)),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Requests that every segment is acknowledged immediately (`true`), or delayed acknowledgements (`false`).
///
/// The kernel may leave either mode. `false` ends the quick acknowledgements at the start of a connection, until the delay
/// of an acknowledgement expires for the first time. `true` lasts until the program sends an answer to received data. To
/// keep a mode, set it again after every read. Connections accepted from a listening socket inherit the mode.
pub fn set_quick_ack(socket: impl AsFd, on: bool) -> io::Result<()> {
    set(
        socket.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_QUICKACK,
        on.into(),
    )
}

/// Whether the socket currently acknowledges every segment immediately.
pub fn quick_ack(socket: impl AsFd) -> io::Result<bool> {
    get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK).map(|value| value != 0)
}

/// Sets `SO_LINGER`. With a time of 0, closing discards unsent data and resets the connection. With `None`, closing returns
/// immediately and the kernel continues to send the data.
pub fn set_linger(socket: impl AsFd, time: Option<Duration>) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(socket, time).map_err(io::Error::from)
}

/// Returns the receive and the send buffer as the kernel accounts them, in bytes: twice the values set by the options.
pub fn buffers(socket: impl AsFd) -> io::Result<(u32, u32)> {
    let socket = socket.as_fd();
    let receive = get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
    let send = get(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)?;
    Ok((receive as u32, send as u32))
}

/// Returns the bytes written and not yet acknowledged by the peer (`SIOCOUTQ`); a FIN counts as one byte.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int.
    check(unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            libc::TIOCOUTQ as _,
            &raw mut value,
        )
    })?;
    Ok(value as u32)
}

/// Maps a socket's error to the failure of an exchange.
pub fn classify(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN) => {
            Failure::Refused
        }
        Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) => Failure::Reset,
        Some(libc::ETIMEDOUT) => Failure::TimedOut,
        Some(
            libc::EMFILE
            | libc::ENFILE
            | libc::ENOBUFS
            | libc::ENOMEM
            | libc::EADDRNOTAVAIL
            | libc::EADDRINUSE,
        ) => Failure::LocalLimit,
        _ => Failure::LocalAbort,
    }
}

fn open(address: SocketAddr) -> Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the descriptor is owned from here on.
    unsafe {
        let fd = check(libc::socket(family, kind, libc::IPPROTO_TCP)).doing("open a socket")?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn bind(socket: &OwnedFd, address: SocketAddr) -> Result<()> {
    rustix::net::bind(socket, &address).map_err(|error| match error {
        rustix::io::Errno::ADDRINUSE => crate::Error::PortTaken { address },
        error => crate::Error::System {
            doing: format!("bind to {address}"),
            source: error.into(),
        },
    })
}

pub(crate) fn set(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_bytes(socket, level, option, &value.to_ne_bytes())
}

fn set_bytes(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: pointer and length are of a live slice.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

pub(crate) fn get(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value = [0; 4];
    get_bytes(socket, level, option, &mut value)?;
    Ok(libc::c_int::from_ne_bytes(value))
}

pub(crate) fn get_bytes(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: pointer and length are of a live slice that nothing else borrows.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn a_port_of_its_own_can_be_shared_afterwards() {
        let first = listen(loopback(), 64, &SocketOptions::default()).unwrap();
        let address = first.local_addr().unwrap();
        let shared = SocketOptions {
            reuse_port: true,
            ..SocketOptions::default()
        };
        let early = listen(address, 64, &shared);
        assert!(matches!(early, Err(crate::Error::PortTaken { .. })));
        share_port(&first).unwrap();
        let second = listen(address, 64, &shared).unwrap();
        let unshared = listen(address, 64, &SocketOptions::default());
        assert!(matches!(unshared, Err(crate::Error::PortTaken { .. })));
        // A hash assigns each of 64 connections to one of two listeners. All go to the same listener with a probability
        // of 2^-63.
        let clients: Vec<_> = (0..64)
            .map(|_| std::net::TcpStream::connect(address).unwrap())
            .collect();
        let count = |listener: &TcpListener| std::iter::from_fn(|| listener.accept().ok()).count();
        let counts = [count(&first), count(&second)];
        assert_eq!(counts.iter().sum::<usize>(), clients.len());
        assert!(!counts.contains(&0), "{counts:?}");
    }

    fn accepted(listener: &TcpListener) -> TcpStream {
        loop {
            match listener.accept() {
                Ok((stream, _)) => return stream,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn options_are_taken_and_handed_on_to_accepted_connections() {
        let options = SocketOptions {
            no_delay: Some(true),
            receive_buffer_bytes: Some(8760),
            send_buffer_bytes: Some(8192),
            max_segment_bytes: Some(536),
            congestion_control: Some("reno".to_owned()),
            ..SocketOptions::default()
        };
        let listener = listen(loopback(), 16, &options).unwrap();
        let address = listener.local_addr().unwrap();
        let source = SocketAddr::from(([127, 0, 0, 9], 0));
        let client = connect(address, Some(source), &SocketOptions::default()).unwrap();
        let server = accepted(&listener);
        assert_eq!(client.local_addr().unwrap().ip(), source.ip());
        assert!(server.nodelay().unwrap());
        assert_eq!(buffers(&server).unwrap(), (2 * 8760, 2 * 8192));
        let segment = get(client.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap();
        assert!(segment <= 536, "{segment}");

        let sent = send_vectored(&client, &[IoSlice::new(b"ab"), IoSlice::new(b"c")], false);
        assert_eq!(sent.unwrap(), Some(3));
        let mut server = server;
        server.set_nonblocking(false).unwrap();
        let mut text = [0; 3];
        server.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"abc");
    }

    #[test]
    fn files_are_sent_from_the_requested_offset_to_their_end() {
        let listener = listen(loopback(), 1, &SocketOptions::default()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let server = accepted(&listener);
        server.set_nonblocking(true).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"0123456789").unwrap();
        assert_eq!(send(&server, b"ab", true).unwrap(), Some(2));
        assert_eq!(send_file(&server, &file, 3, 4).unwrap(), Some(4));
        assert_eq!(send_file(&server, &file, 8, 100).unwrap(), Some(2));
        assert_eq!(send_file(&server, &file, 10, 1).unwrap(), Some(0));
        let mut text = [0; 8];
        client.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"ab345689");
        let much = vec![0; 1 << 20];
        while send(&server, &much, false).unwrap().is_some() {}
        assert_eq!(send_file(&server, &file, 0, 1).unwrap(), None);
    }

    #[test]
    fn errors_are_classified_by_their_cause() {
        let free = listen(loopback(), 1, &SocketOptions::default())
            .unwrap()
            .local_addr()
            .unwrap();
        let error = match connect(free, None, &SocketOptions::default()) {
            Err(error) => error,
            Ok(stream) => loop {
                if let Some(error) = stream.take_error().unwrap() {
                    break error;
                }
                std::thread::yield_now();
            },
        };
        assert_eq!(classify(&error), Failure::Refused);
        let taken = listen(loopback(), 1, &SocketOptions::default()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = listen(address, 1, &SocketOptions::default()).unwrap_err();
        assert!(error.to_string().contains("already in use"), "{error}");
        for (errno, failure) in [
            (libc::ECONNRESET, Failure::Reset),
            (libc::EMFILE, Failure::LocalLimit),
            (libc::ETIMEDOUT, Failure::TimedOut),
            (libc::EINVAL, Failure::LocalAbort),
        ] {
            assert_eq!(classify(&io::Error::from_raw_os_error(errno)), failure);
        }
    }

    #[test]
    fn lingering_for_no_time_resets() {
        let listener = listen(loopback(), 1, &SocketOptions::default()).unwrap();
        let address = listener.local_addr().unwrap();
        let client = connect(address, None, &SocketOptions::default()).unwrap();
        let mut server = accepted(&listener);
        set_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        server.set_nonblocking(false).unwrap();
        let error = server.read(&mut [0; 1]).unwrap_err();
        assert_eq!(classify(&error), Failure::Reset);
    }
}
