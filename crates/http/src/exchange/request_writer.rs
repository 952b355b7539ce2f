//! Writes an HTTP/2 or HTTP/3 request field by field.

use std::fmt;

use super::{Content, Opening, Queued, RequestFields, RequestLine, SendError};

/// The part of a client connection into which requests are written.
pub(crate) trait RequestQueue: fmt::Debug {
    /// The request that is being written.
    fn fields(&mut self) -> &mut RequestFields;

    /// Queues a request with these complete fields.
    fn queue(&mut self, opening: Opening, fields: &RequestFields) -> Queued;
}

/// Writes one request. Only the `send` methods compress the request; a writer that is dropped earlier has no effect.
#[derive(Debug)]
#[must_use = "a `send` method queues the request"]
pub struct RequestWriter<'c> {
    connection: &'c mut dyn RequestQueue,
    opening: Opening,
    error: Option<SendError>,
}

impl<'c> RequestWriter<'c> {
    /// Starts a request with this line. If the line is invalid, the `send` methods return the error.
    pub(crate) fn new(
        connection: &'c mut dyn RequestQueue,
        line: RequestLine<'_>,
        scheme: &str,
    ) -> RequestWriter<'c> {
        let error = connection.fields().begin(line, scheme);
        RequestWriter {
            connection,
            opening: Opening::new(line.method),
            error,
        }
    }

    /// Adds a field; its name is converted to lower case. The fields that frame the content, `Expect`, and
    /// connection-specific fields of HTTP/1.x are refused.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        self.field_display(name, value)
    }

    /// Adds a field whose value is formatted directly into the buffer.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        let added = self.connection.fields().add(name, value);
        self.error = added.err().or(self.error);
        self
    }

    /// Queues the request without content. The request is sent with the connection's next output.
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request; its content must follow with the connection's `send_content`. [`Content::Chunked`] does not
    /// state a length. With `expect_continue` the request has `Expect: 100-continue`, and the content waits for
    /// [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(self, content: Content, expect_continue: bool) -> Result<Queued, SendError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let opening = Opening {
            content,
            expect_continue,
            ..self.opening
        };
        let connection = self.connection;
        connection.fields().end(&opening)?;
        // The buffers are reused for the next request.
        let fields = std::mem::take(connection.fields());
        let queued = connection.queue(opening, &fields);
        *connection.fields() = fields;
        Ok(queued)
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Bytes;

    use super::*;
    use crate::exchange::{RequestId, Version};

    /// Stores the field names of each request.
    #[derive(Debug, Default)]
    struct Requests {
        fields: RequestFields,
        queued: Vec<(Opening, Vec<String>)>,
    }

    impl RequestQueue for Requests {
        fn fields(&mut self) -> &mut RequestFields {
            &mut self.fields
        }

        fn queue(&mut self, opening: Opening, fields: &RequestFields) -> Queued {
            let names = fields.iter();
            let names = names.map(|(name, ..)| String::from_utf8_lossy(name).into_owned());
            self.queued.push((opening, names.collect()));
            Queued {
                request: RequestId(self.queued.len() as u32 - 1),
                head: Bytes(0),
                fields: fields.bytes(),
            }
        }
    }

    fn line(target: &str) -> RequestLine<'_> {
        RequestLine {
            method: "PUT",
            target,
            host: "a",
            version: Version::Http11,
        }
    }

    #[test]
    fn a_request_is_queued_with_its_fields_when_it_is_sent() {
        let mut requests = Requests::default();
        let mut dropped = RequestWriter::new(&mut requests, line("/"), "https");
        dropped.field("Left", "out");
        drop(dropped);
        let mut writer = RequestWriter::new(&mut requests, line("/"), "https");
        writer.field("Accept", "*/*").field_display("Age", 3);
        let queued = writer.send_with(Content::Sized(7), true).unwrap();
        assert_eq!(queued.request, RequestId(0));
        let [(opening, names)] = &requests.queued[..] else {
            panic!("{requests:?}");
        };
        assert_eq!(opening.remaining(), Some(7));
        assert!(opening.expect_continue && !opening.ends());
        let expected = [
            ":method",
            ":scheme",
            ":authority",
            ":path",
            "accept",
            "age",
            "content-length",
            "expect",
        ];
        assert_eq!(names, &expected);
    }

    #[test]
    fn an_error_of_the_line_or_of_a_field_is_returned_when_the_request_is_sent() {
        let mut requests = Requests::default();
        let writer = RequestWriter::new(&mut requests, line("/a b"), "https");
        assert_eq!(writer.send(), Err(SendError::BadTarget));
        let mut writer = RequestWriter::new(&mut requests, line("/"), "https");
        writer.field("Connection", "close").field("Accept", "*/*");
        assert_eq!(writer.send(), Err(SendError::BadField));
        let writer = RequestWriter::new(&mut requests, line("/"), "https");
        let unannounced = writer.send_with(Content::None, true);
        assert_eq!(unannounced, Err(SendError::BadContent));
        assert!(requests.queued.is_empty());
    }
}
