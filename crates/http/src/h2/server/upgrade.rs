//! The start of a connection by an HTTP/1.1 upgrade (RFC 7540 section 3.2, which RFC 9113 deprecates).

use std::sync::Arc;

use fathometer_model::{Bytes, Instant};

use super::{Connection, ServerConfig};
use crate::field_block::FieldBlock;
use crate::h1::server::Upgrade;
use crate::h1::syntax::{Strictness, split_head};
use crate::h2::StreamId;
use crate::h2::error::{ConnectionError, Error, Fault};
use crate::h2::frame::SettingsList;
use crate::message::fields;
use crate::origin::Origin;

impl Connection {
    /// Creates a connection that was upgraded to HTTP/2 at `now`. It sends the response to the upgrade, and then
    /// answers the upgrade request as its first stream. The caller must pass the [bytes after that
    /// request](Upgrade::rest) to the connection.
    pub fn from_upgrade(
        origin: Arc<Origin>,
        config: Arc<ServerConfig>,
        upgrade: &Upgrade,
        now: Instant,
    ) -> Connection {
        let mut connection = Connection::silent(origin, config, now);
        connection
            .responses
            .write(|out| out.extend_from_slice(Upgrade::RESPONSE));
        connection.send_preface();
        if let Err(error) = connection.take_settings(upgrade) {
            connection.refuse(error);
        } else {
            connection.take_request(upgrade, now);
        }
        connection.settle(now);
        connection
    }

    /// Applies the settings of the upgrade request. They are not acknowledged.
    fn take_settings(&mut self, upgrade: &Upgrade) -> Result<(), ConnectionError> {
        let list = SettingsList::parse(&upgrade.settings).ok_or(Fault::FrameLength)?;
        self.responses.apply_first_settings(&list)
    }

    /// Opens the first stream with the upgrade request.
    fn take_request(&mut self, upgrade: &Upgrade, now: Instant) {
        let id = StreamId::new(1);
        self.streams.use_number(id);
        self.fields.clear();
        translate(&upgrade.head, &mut self.fields);
        let receive = self.receiving.stream_window();
        let send = self.responses.peer().initial_window_size;
        let slot = self.streams.open(id, receive, send, now);
        self.requests += 1;
        let stream = &mut self.streams[slot];
        stream.receiving = false;
        stream.served.exchange.request_head = Bytes(upgrade.head.len() as u64);
        stream.served.request_fields = self.fields.bytes();
        match self.begin(slot, None, false, now) {
            Ok(()) => {}
            Err(Error::Stream(error)) => self.refuse_stream(error, now),
            Err(Error::Connection(error)) => self.refuse(error),
        }
    }
}

/// Converts an already parsed HTTP/1.1 head into HTTP/2 fields.
fn translate(head: &[u8], block: &mut FieldBlock) {
    let Ok((line, lines)) = split_head(head, Strictness::Strict) else {
        return;
    };
    let mut words = line.split(|&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    let fields = || lines.clone().filter_map(Result::ok);
    let host = fields().find(|field| field.is("Host"));
    block.push(b":method", method);
    block.push(b":scheme", b"http");
    block.push(b":authority", host.map_or(&[], |field| field.value));
    block.push(b":path", path(target));
    for field in fields() {
        let name = field.name.to_ascii_lowercase();
        let named_by_connection = fields()
            .filter(|other| other.is("Connection"))
            .flat_map(|other| fields::list(other.value))
            .any(|option| option.eq_ignore_ascii_case(&name));
        let is_of_connection = matches!(
            &name[..],
            b"connection" | b"host" | b"keep-alive" | b"proxy-connection" | b"te" | b"upgrade"
        );
        if !is_of_connection && !named_by_connection {
            block.push(&name, field.value);
        }
    }
}

/// Returns the path of a target in origin-form or absolute-form.
fn path(target: &[u8]) -> &[u8] {
    let Some(scheme) = target.windows(3).position(|part| part == b"://") else {
        return target;
    };
    if target.first() == Some(&b'/') {
        return target;
    }
    let rest = &target[scheme + 3..];
    match memchr::memchr(b'/', rest) {
        Some(start) => &rest[start..],
        None => b"/",
    }
}
