//! Sends the content of requests within the flow-control windows.

use super::connection::{Connection, Core};
use super::stream::{Stream, UploadState, stream_of};
use crate::exchange::RequestId;
use crate::exchange::SendError;
use crate::h2::flow::Window;
use crate::h2::frame::write;

impl Connection {
    /// Adds content to a request that announced content. The content is held until it is released. Content that the
    /// windows block is buffered and sent later without another call.
    pub fn send_content(&mut self, request: RequestId, content: &[u8]) -> Result<(), SendError> {
        let core = self.core_mut();
        let stream = core.uploading(request)?;
        let upload = &mut stream.upload;
        let mut is_last = false;
        if let Some(remaining) = &mut upload.remaining {
            let left = remaining.checked_sub(content.len() as u64);
            *remaining = left.ok_or(SendError::BadContent)?;
            is_last = *remaining == 0;
        }
        if is_last {
            upload.state = UploadState::Given;
        }
        core.give(request, content);
        Ok(())
    }

    /// Ends content that was announced without a length. Content with a known length ends with its last byte.
    pub fn finish_content(&mut self, request: RequestId) -> Result<(), SendError> {
        let core = self.core_mut();
        let stream = core.uploading(request)?;
        if stream.upload.remaining.is_some() {
            return Err(SendError::BadContent);
        }
        stream.upload.state = UploadState::Given;
        core.give(request, &[]);
        Ok(())
    }

    /// The number of content bytes of a request that wait for a window. A caller with much content should wait until
    /// this number is small.
    pub fn backlog(&self, request: RequestId) -> usize {
        let stream = self.core().streams.get(request);
        stream.map_or(0, |stream| {
            stream.upload.backlog.len() - stream.upload.framed
        })
    }
}

impl Core {
    /// Returns the stream of a request that accepts content.
    fn uploading(&mut self, request: RequestId) -> Result<&mut Stream, SendError> {
        if !self.is_open() {
            return Err(SendError::Closed);
        }
        match self.streams.get_mut(request) {
            None => Err(SendError::Closed),
            Some(stream) if stream.upload.state == UploadState::Open => Ok(stream),
            Some(_) => Err(SendError::BadContent),
        }
    }

    /// Puts content into frames within the windows, and buffers the remaining content.
    fn give(&mut self, request: RequestId, content: &[u8]) {
        let Some(stream) = self.streams.get_mut(request) else {
            return;
        };
        let was_blocked = stream.upload.is_blocked();
        let mut rest = content;
        if !was_blocked {
            let ends = stream.upload.state == UploadState::Given;
            let frame = self.peer.max_frame_size;
            let out = &mut self.output.held;
            while !rest.is_empty() || ends {
                let bytes = next_frame(rest.len(), frame, &stream.send, &self.send);
                if bytes == 0 && !rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at(bytes as usize);
                let is_last = ends && later.is_empty();
                write::data_header(out, stream_of(request), bytes, is_last);
                out.extend_from_slice(now);
                stream.send.take(bytes);
                self.send.take(bytes);
                rest = later;
                if is_last {
                    stream.upload.state = UploadState::Done;
                    return;
                }
            }
        }
        if !rest.is_empty() {
            stream.upload.backlog.extend_from_slice(rest);
            if !was_blocked {
                self.blocked.push_back(request);
            }
        }
    }

    /// Releases the content that waits for windows. It is sent when the windows allow it.
    pub(super) fn release_backlogs(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        for &request in &self.blocked {
            if let Some(stream) = self.streams.get_mut(request) {
                stream.upload.released = stream.upload.backlog.len();
            }
        }
        self.frame_backlogs();
    }

    /// Puts released content from the backlogs into frames. The requests alternate (round robin), one frame at a time.
    pub(super) fn frame_backlogs(&mut self) {
        let mut idle_turns = 0;
        while idle_turns < self.blocked.len() && self.send.available() > 0 {
            let Some(request) = self.blocked.pop_front() else {
                return;
            };
            match self.frame_backlog(request) {
                Turn::Done => {}
                Turn::Goes => {
                    idle_turns = 0;
                    self.blocked.push_back(request);
                }
                Turn::Waits => {
                    idle_turns += 1;
                    self.blocked.push_back(request);
                }
            }
        }
    }

    fn frame_backlog(&mut self, request: RequestId) -> Turn {
        let Some(stream) = self.streams.get_mut(request) else {
            return Turn::Done;
        };
        let upload = &mut stream.upload;
        let may_go = upload.released - upload.framed;
        let frame = self.peer.max_frame_size;
        let bytes = next_frame(may_go, frame, &stream.send, &self.send);
        if bytes == 0 {
            return Turn::Waits;
        }
        let end = upload.framed + bytes as usize;
        let is_whole = end == upload.backlog.len();
        let is_last = is_whole && upload.state == UploadState::Given;
        let out = &mut self.output.ready;
        write::data_header(out, stream_of(request), bytes, is_last);
        out.extend_from_slice(&upload.backlog[upload.framed..end]);
        stream.send.take(bytes);
        self.send.take(bytes);
        self.calm.progress();
        upload.framed = end;
        if !is_whole {
            return Turn::Goes;
        }
        upload.backlog.clear();
        upload.framed = 0;
        upload.released = 0;
        if is_last {
            upload.state = UploadState::Done;
        }
        Turn::Done
    }
}

/// The result of a request's turn in the round robin.
enum Turn {
    /// No content waits.
    Done,
    /// A frame was written, and more content waits.
    Goes,
    /// The windows block the content.
    Waits,
}

/// Returns the number of content bytes for the next frame.
fn next_frame(content: usize, frame: u32, stream: &Window, connection: &Window) -> u32 {
    let content = u32::try_from(content).unwrap_or(u32::MAX);
    content
        .min(frame)
        .min(stream.available())
        .min(connection.available())
}
