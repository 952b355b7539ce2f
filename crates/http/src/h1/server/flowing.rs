//! Responses whose content is generated while it is sent.
//!
//! HTTP/1.1 sends each ready part as a chunk (RFC 9112 section 7.1); HTTP/1.0 ends the content by closing the
//! connection. Content of known length needs neither. Later requests wait until the response is complete. While the
//! client does not read, no content is generated.

use fathometer_model::{Bytes, Instant};

use super::refusal::CloseReason;
use super::text::TextLengths;
use super::{Action, Connection, Outstanding, Served};
use crate::origin::dynamic::{Flow, Flowed, Ready};
use crate::waiting::MAX_UNSENT_PER_RESPONSE;

/// A response whose content is not completely generated yet.
#[derive(Debug)]
pub(super) struct Flowing {
    flow: Flow,
    chunked: bool,
    /// The time at which the next part is ready.
    next: Instant,
    served: Served,
    text: TextLengths,
}

impl Flowing {
    /// Creates the state of a response whose head was queued at `now`.
    pub(super) fn new(
        flow: Flow,
        chunked: bool,
        (served, text): (Served, TextLengths),
        now: Instant,
    ) -> Flowing {
        Flowing {
            flow,
            chunked,
            next: now,
            served,
            text,
        }
    }
}

impl Connection {
    /// Queues the ready parts of the current response while the client takes them.
    pub(super) fn flow_on(&mut self, now: Instant) {
        while let Some(flowing) = &self.flowing
            && flowing.next <= now
            && self.takes_more()
            && let Some(mut flowing) = self.flowing.take()
        {
            let mut ready = Ready::default();
            let (origin, flow) = (&self.origin, &mut flowing.flow);
            let flowed = flow.poll(origin, now, |segment| ready.push(segment));
            flowing.served.body += Bytes(ready.length());
            self.queue_chunk(&ready, flowing.chunked);
            match flowed {
                Flowed::Until(next) => {
                    flowing.next = next;
                    self.flowing = Some(flowing);
                }
                Flowed::Whole => self.end_flow(&flowing, now),
                Flowed::Broken => {
                    self.note_cut(&flowing, true);
                    self.stop(CloseReason::ContentLost);
                    self.finish(Action::Close);
                }
            }
        }
        self.release_all(now);
    }

    /// The time at which the next part of the response is ready; `None` while the client takes no more.
    pub(super) fn flows_at(&self) -> Option<Instant> {
        let flowing = self.flowing.as_ref()?;
        self.takes_more().then_some(flowing.next)
    }

    /// Whether there is room for more content of a response.
    pub(super) fn takes_more(&self) -> bool {
        let waiting = self.output.queued() - self.output.sent();
        waiting < MAX_UNSENT_PER_RESPONSE.0 && !self.is_congested()
    }

    /// Records a response that will not be completed.
    pub(super) fn cut_flow(&mut self) {
        if let Some(flowing) = self.flowing.take() {
            self.note_cut(&flowing, false);
        }
    }

    fn note_cut(&mut self, flowing: &Flowing, is_broken: bool) {
        let &Flowing { served, text, .. } = flowing;
        self.outstanding.push_back(Outstanding {
            end: self.output.queued(),
            is_broken,
            served,
            text,
        });
    }

    fn queue_chunk(&mut self, ready: &Ready, framed: bool) {
        // An empty chunk would end the body.
        if ready.length() == 0 {
            return;
        }
        let output = &mut self.output;
        if framed {
            output.push_text(|text| {
                use std::io::Write;
                // Writing to a vector cannot fail.
                let _ = write!(text, "{:x}\r\n", ready.length());
            });
        }
        ready.write(|segment| output.push(segment));
        if framed {
            output.push_text(|text| text.extend_from_slice(b"\r\n"));
        }
    }

    fn end_flow(&mut self, flowing: &Flowing, now: Instant) {
        if flowing.chunked {
            self.output
                .push_text(|text| text.extend_from_slice(b"0\r\n\r\n"));
        }
        if self.config.events {
            let Flowing { served, text, .. } = *flowing;
            self.outstanding.push_back(Outstanding {
                end: self.output.queued(),
                is_broken: false,
                served,
                text,
            });
            // Without a last chunk, the last byte of the content may already have been sent.
            self.note_handed_over(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fathometer_model::Site;

    use super::super::tests::Host;
    use super::super::{CloseReason, ServerConfig};
    use super::*;
    use crate::h1::chunked::{ChunkedDecoder, ChunkedLimits};
    use crate::h1::syntax::Strictness;
    use crate::origin::dynamic::Dynamic;
    use crate::origin::{Origin, OriginConfig};

    use crate::origin::packages::turn_tests;

    const GET: &str = "GET /feed HTTP/1.1\r\nHost: h\r\n\r\n";

    /// Creates a server that sends three parts of `part` bytes, one every tenth of a second.
    fn host(part: u32) -> Host {
        let dynamic = Dynamic {
            path: "/feed".to_owned(),
            content_type: None,
            parts: 3,
            part: Some(part),
            first: Duration::from_millis(100),
            every: Duration::from_millis(100),
        };
        let site = Site {
            name: String::new(),
            files: Vec::new(),
            pages: Vec::new(),
        };
        let config = OriginConfig {
            dynamic: vec![dynamic],
            ..OriginConfig::default()
        };
        host_of(Arc::new(Origin::new(Arc::new(site), config).unwrap()))
    }

    fn host_of(origin: Arc<Origin>) -> Host {
        let config = Arc::new(ServerConfig {
            events: true,
            request_text: true,
            ..ServerConfig::default()
        });
        Host {
            connection: Connection::new(origin, config, Instant::ZERO),
            now: Instant::ZERO,
            writes: Vec::new(),
            actions: Vec::new(),
            served: Vec::new(),
        }
    }

    fn head_and_rest(output: &str) -> (&str, &str) {
        output.split_once("\r\n\r\n").expect("a complete head")
    }

    #[test]
    fn chunks_are_sent_as_soon_as_they_are_ready() {
        let mut host = host(50);
        host.send(GET);
        let output = host.output();
        let (head, rest) = head_and_rest(&output);
        assert!(head.contains("\r\nTransfer-Encoding: chunked"), "{head}");
        assert!(!head.contains("Content-Length"), "{head}");
        assert_eq!(rest, "", "the head does not wait for the content");
        for part in 1..=3 {
            assert_eq!(host.wait(), Duration::from_millis(100));
            let last = String::from_utf8(host.writes.last().unwrap().clone()).unwrap();
            let begin = format!("32\r\npart {part} of 3\n");
            assert!(last.starts_with(&begin), "{last}");
            assert_eq!(last.ends_with("\r\n0\r\n\r\n"), part == 3, "{last}");
        }
        assert_eq!(
            (host.statuses(), host.served[0].body),
            (vec![200], Bytes(150))
        );
        assert!(host.connection.is_idle());
        let output = host.output();
        let (_, rest) = head_and_rest(&output);
        let mut decoder = ChunkedDecoder::new(Strictness::Strict, ChunkedLimits::default());
        let (mut rest, mut bytes) = (rest.as_bytes(), 0);
        while !decoder.is_done() {
            let decoded = decoder.decode(rest).unwrap();
            bytes += decoded.data.len();
            rest = &rest[decoded.consumed..];
        }
        assert_eq!((bytes, rest.len()), (150, 0));
    }

    #[test]
    fn later_requests_wait_and_are_answered() {
        let mut host = host(50);
        host.send(GET.to_owned() + "GET /none HTTP/1.1\r\nHost: h\r\n\r\n" + GET);
        assert_eq!(host.output().matches("HTTP/1.1").count(), 1);
        for _ in 0..6 {
            assert_eq!(host.wait(), Duration::from_millis(100));
        }
        assert_eq!(host.statuses(), [200, 404, 200]);
        // When the client closes its side, requests in flight are still answered.
        host.send(GET).eof();
        for _ in 0..3 {
            host.wait();
        }
        assert_eq!(host.statuses(), [200, 404, 200, 200]);
        assert_eq!(
            host.connection.close_reason(),
            Some(CloseReason::ClientFinished)
        );
    }

    #[test]
    fn the_end_of_the_connection_ends_the_content_for_http_1_0() {
        let mut host = host(50);
        host.send("GET /feed HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        for _ in 0..3 {
            assert!(host.actions.is_empty());
            host.wait();
        }
        let output = host.output();
        let (head, rest) = head_and_rest(&output);
        assert!(head.contains("\r\nConnection: close"), "{head}");
        assert!(!head.contains("Transfer-Encoding"), "{head}");
        assert_eq!(rest.len(), 150);
        assert_eq!(host.actions, [Action::ShutdownWrite]);
        assert_eq!(
            host.connection.close_reason(),
            Some(CloseReason::EndsContent)
        );
        assert_eq!(host.statuses(), [200]);
    }

    #[test]
    fn no_content_is_made_while_the_client_reads_nothing() {
        let mut host = host(100_000);
        host.push(GET);
        for _ in 0..3 {
            host.now += Duration::from_millis(100);
            host.connection.handle_timeout(host.now);
        }
        let waiting = host.connection.output.queued();
        assert!((100_000..101_000).contains(&waiting), "{waiting}");
        host.write(usize::MAX);
        while host.statuses().is_empty() {
            assert_eq!(host.wait(), Duration::ZERO);
        }
        assert_eq!(host.served[0].body, Bytes(300_000));
    }

    #[test]
    fn a_response_to_head_has_no_content() {
        let mut host = host(50);
        host.send("HEAD /feed HTTP/1.1\r\nHost: h\r\n\r\n");
        let output = host.output();
        let (head, rest) = head_and_rest(&output);
        assert!(
            !head.contains("Transfer-Encoding") && rest.is_empty(),
            "{output}"
        );
        assert_eq!(host.statuses(), [200]);
        assert!(host.connection.is_idle());
    }

    #[test]
    fn an_interrupted_response_is_reported_with_the_bytes_sent() {
        let mut host = host(50);
        host.send(GET);
        host.wait();
        host.connection.handle_failure();
        let (served, _) = host.connection.cut_short(host.now).unwrap();
        assert_eq!((served.status, served.body), (200, Bytes(50)));
        assert!(host.connection.cut_short(host.now).is_none());
    }

    #[test]
    fn a_response_that_cannot_be_completed_is_reported_even_if_nothing_was_sent() {
        for readable in [0, 100_000] {
            let mut host = host_of(turn_tests::partly_readable_file(readable));
            let accept = turn_tests::ACCEPT;
            host.send(format!(
                "GET /d/ HTTP/1.1\r\nHost: h\r\nAccept: {accept}\r\n\r\n"
            ));
            while host.actions.is_empty() {
                while let Some(part) = host.connection.transmit_file() {
                    let length = part.length as usize;
                    host.connection.transmitted(length, host.now);
                    host.write(usize::MAX);
                }
                if host.actions.is_empty() {
                    host.wait();
                }
            }
            assert_eq!(host.actions, [Action::Close]);
            assert!(host.served.is_empty());
            let (served, text) = host.connection.cut_short(host.now).unwrap();
            assert_eq!((served.status, text.line), (200, &b"GET /d/ HTTP/1.1"[..]));
            assert_eq!(served.body.0 >= 60_000, readable > 0, "{served:?}");
            assert!(host.connection.cut_short(host.now).is_none());
        }
    }
}
