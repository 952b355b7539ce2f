//! The thread of a member's connection.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::Clock;
use rustix::event::PollFd;

use super::transfer::{Buffers, Ended, Wire, wait};
use super::{Command, Event, SessionError, SessionOptions, Started, TURN, nonce, set, spawn};
use crate::channel::ChannelSettings;
use crate::member::{Member, MemberEvent};
use crate::message::Message;
use crate::secret::Side;

/// The time limit of one connection attempt, and the pause before the next attempt.
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

type Resolve = fn(&str) -> io::Result<Vec<SocketAddr>>;

pub(super) fn start(
    options: &SessionOptions,
    place: String,
    resolve: Resolve,
    clock: Clock,
) -> Result<Started, SessionError> {
    let options = options.clone();
    let tls = ChannelSettings::new(Side::Member, clock.realtime_of(Instant::ZERO))?;
    spawn("ranks", move |commands, sender, stop| {
        let channels = (commands, sender);
        let ended = take_part(&options, &tls, (&place, resolve), clock, channels, stop);
        if let Err(why) = ended {
            set(stop);
            let _ = sender.send(Event::Lost(why));
        }
        None
    })
}

/// The state of this rank over all its connections.
#[derive(Debug, Default)]
struct Progress {
    /// Whether the event loops of this rank are ready.
    is_ready: bool,
    /// Whether rank 0 has accepted this rank.
    is_welcome: bool,
    /// Whether the connection was closed or failed before rank 0 sent a reason.
    is_closed: bool,
    /// The reason why the last connection ended.
    last: Option<String>,
}

impl Progress {
    /// Handles the end of a connection. If the connection was closed, the member may retry, unless the peer is not rank
    /// 0 of this version.
    fn end(&mut self, machine: &mut Member, why: &Ended) {
        self.is_closed = matches!(why, Ended::Closed(_)) && !machine.is_lost();
        machine.closed(&format!("rank 0 is lost: {why}"));
        self.last = Some(why.to_string());
    }
}

/// Connects and serves the connection. If there are too many connections, rank 0 closes some. So a rank that is not
/// accepted yet connects again.
fn take_part(
    options: &SessionOptions,
    tls: &ChannelSettings,
    (place, resolve): (&str, Resolve),
    clock: Clock,
    channels: (&Receiver<Command>, &Sender<Event>),
    stop: &AtomicBool,
) -> Result<(), String> {
    let end = clock.now() + options.rendezvous;
    let mut progress = Progress::default();
    loop {
        let socket = connect(place, resolve, options.rendezvous, (end, clock));
        let socket = socket.map_err(|why| match &progress.last {
            Some(last) => format!("{why}; the last connection failed: {last}"),
            None => why,
        })?;
        let wire = Wire::new(socket, tls, clock.now())?;
        let nonce = nonce().map_err(|error| error.to_string())?;
        // Rank 0 uses the same time limit for the wait, and then sends the reason of the failure. So the member's own
        // limit is not needed here.
        let machine = Member::new(
            options.hello.clone(),
            options.secret.clone(),
            nonce,
            options.silence,
            clock.now(),
        );
        progress.is_closed = false;
        let ended = serve(wire, machine, clock, channels, stop, &mut progress);
        let may_retry = progress.is_closed && !progress.is_welcome && clock.now() < end;
        if ended.is_ok() || !may_retry {
            return ended;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Connects to rank 0. Retries while rank 0 is not reachable.
fn connect(
    place: &str,
    resolve: Resolve,
    rendezvous: Duration,
    (end, clock): (Instant, Clock),
) -> Result<TcpStream, String> {
    loop {
        let attempt = || -> io::Result<TcpStream> {
            let mut last = io::Error::other("the rendezvous has no address");
            for address in resolve(place)? {
                match TcpStream::connect_timeout(&address, ATTEMPT) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        match attempt() {
            Ok(socket) => return Ok(socket),
            Err(error) if clock.now() >= end => {
                return Err(format!(
                    "the test did not start: no connection to rank 0 at {place} within {rendezvous:?}: {error}; check \
                     that rank 0 runs and that the port is open, or set a longer --rendezvous-timeout"
                ));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Serves the connection until rank 0 has accepted the result.
fn serve(
    mut wire: Wire,
    mut machine: Member,
    clock: Clock,
    (commands, sender): (&Receiver<Command>, &Sender<Event>),
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<(), String> {
    let mut buffers = Buffers::default();
    if progress.is_ready {
        machine.ready(clock.now());
    }
    loop {
        let now = clock.now();
        loop {
            match commands.try_recv() {
                Ok(Command::Ready) => {
                    progress.is_ready = true;
                    machine.ready(now);
                }
                Ok(Command::Interval(bytes)) => machine.send(&Message::Interval(bytes)),
                Ok(Command::Compare) => machine.compare_again(now),
                Ok(Command::Ended(record, _)) => machine.send(&Message::Ended(record)),
                Ok(Command::Failed(why)) => {
                    machine.send(&Message::Failed(why.clone()));
                    let _ = wire.write(machine.outbox());
                    return Err(why);
                }
                // A member needs no action, because its load stops itself.
                Ok(Command::Stop(_)) => {}
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        machine.tick(now);
        if let Err(why) = wire.write(machine.outbox()) {
            progress.end(&mut machine, &why);
        }
        while let Some(event) = machine.event() {
            let event = match event {
                MemberEvent::Welcome => {
                    progress.is_welcome = true;
                    continue;
                }
                MemberEvent::Start(at, test) => Event::Start(at, test),
                MemberEvent::Stop => {
                    set(stop);
                    continue;
                }
                MemberEvent::Compared(record) => Event::Compared(record, wire.traffic()),
                MemberEvent::Done => {
                    let _ = sender.send(Event::Done);
                    return Ok(());
                }
                MemberEvent::Lost(why) => {
                    if let Some(record) = machine.clock() {
                        let _ = sender.send(Event::Compared(record, wire.traffic()));
                    }
                    return Err(why);
                }
            };
            let _ = sender.send(event);
        }
        let has_output = !machine.outbox().is_empty();
        wait(&mut [PollFd::new(&wire, wire.interest(has_output))], TURN);
        loop {
            match wire.read(&mut buffers, clock) {
                Ok(Some(arrival)) => {
                    if let Some(binding) = arrival.binding {
                        machine.bind(&binding);
                    }
                    machine.receive(&buffers.plain, arrival.at);
                }
                Ok(None) => break,
                Err(why) => {
                    progress.end(&mut machine, &why);
                    break;
                }
            }
        }
    }
}
