//! The server's pushes (RFC 9113 section 8.4).

use super::config::Push;
use super::connection::Core;
use super::promise;
use super::stream::{Answer, Stream, Upload, request_of};
use crate::exchange::{Event, Received};
use crate::h2::StreamId;
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::flow::{ReceiveWindow, Window};
use crate::h2::frame::HeaderBlock;

impl Core {
    /// Handles a PUSH_PROMISE frame.
    pub(super) fn pushed(
        &mut self,
        promised: StreamId,
        block: &HeaderBlock<'_>,
    ) -> Result<(), Fault> {
        let parent = request_of(block.stream);
        if self.config.push == Push::Disabled || parent.is_pushed() {
            return Err(Fault::UnexpectedPush);
        }
        if !promised.is_server() || promised <= self.last_promised {
            return Err(Fault::BadStreamNumber);
        }
        self.last_promised = promised;
        self.must_not_be_idle(block.stream)?;
        self.promise.clear();
        let decoded = self.decoder.decode(block.block, &mut self.promise);
        if decoded.is_err_and(|error| error.is_fatal()) {
            return Err(Fault::Compression);
        }
        let request = request_of(promised);
        if self.streams.get(parent).is_none() {
            // If this side did not reset the parent, the promise is an error; otherwise, the server sent it before the
            // reset arrived.
            if !self.resets_overflowed && !self.resets.contains(&parent) {
                return Err(Fault::ClosedStream);
            }
            return self.refuse(promised, ErrorCode::CANCEL);
        }
        let is_good = decoded.is_ok() && self.promise_is_good();
        let refused = match self.config.push {
            _ if !is_good => return self.refuse(promised, ErrorCode::PROTOCOL_ERROR),
            Push::Accepted if self.pushed < self.config.most_pushes => None,
            Push::Accepted => Some(ErrorCode::REFUSED_STREAM),
            Push::Refused | Push::Disabled => Some(ErrorCode::CANCEL),
        };
        self.notes.push_back(Event::Promised {
            request,
            parent,
            accepted: refused.is_none(),
        });
        if let Some(code) = refused {
            return self.refuse(promised, code);
        }
        let head_method = promise::read(&self.promise).is_ok_and(|it| it.method == "HEAD");
        let stream = Stream {
            head_method,
            idempotent: true,
            answer: Answer::None,
            interims: 0,
            received: Received::default(),
            sent: Some(self.now),
            send: Window::new(0),
            receive: ReceiveWindow::new(self.config.settings.initial_window_size),
            upload: Upload::default(),
        };
        self.streams.insert(request, stream);
        self.pushed += 1;
        self.watch(self.now);
        Ok(())
    }

    /// Whether the server may push a response to the promised request.
    fn promise_is_good(&self) -> bool {
        if self.promise.len() > usize::from(self.config.limits.fields) + 4 {
            return false;
        }
        let Ok(promise) = promise::read(&self.promise) else {
            return false;
        };
        let asked = |host: &[u8]| promise.authority.as_bytes().eq_ignore_ascii_case(host);
        // If all pushes are refused, the hosts of requests are not recorded.
        let is_ours =
            self.config.push == Push::Refused || self.authorities.iter().any(|host| asked(host));
        is_ours && promise.scheme == self.config.scheme.name()
    }

    fn refuse(&mut self, promised: StreamId, code: ErrorCode) -> Result<(), Fault> {
        self.calm.wants_answer(&self.config.floods, self.now)?;
        self.reset(request_of(promised), code);
        match self.output.answered(0) > self.config.floods.waiting {
            true => Err(Fault::OutputFlood),
            false => Ok(()),
        }
    }

    /// Whether the number of pushed responses in flight has reached the maximum.
    pub(super) fn too_many_pushes(&self) -> bool {
        let Some(most) = self.config.settings.max_concurrent_streams else {
            return false;
        };
        let begun = self
            .streams
            .iter()
            .filter(|(request, stream)| request.is_pushed() && stream.is_begun());
        begun.count() as u64 >= u64::from(most)
    }
}
