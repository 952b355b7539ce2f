//! Tests that a client connection allocates nothing per exchange once its buffers have grown.

#![expect(unsafe_code, reason = "a counting allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fathometer_http::h1::client::{Config, Connection, Event, RequestLine, Version};
use fathometer_model::Instant;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting the calls of each thread.
struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches a constant-
// initialised thread local without a destructor, which never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are passed on as they are.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are passed on as they are.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends `depth` requests and reads as many responses, in pieces of `piece` bytes.
fn round(connection: &mut Connection, depth: u16, response: &[u8], piece: usize) -> usize {
    let now = Instant::ZERO;
    for number in 0..depth {
        let line = RequestLine {
            method: "GET",
            target: "/images/logo.gif",
            host: "example.org",
            version: Version::Http11,
        };
        let mut request = connection.request(line).unwrap();
        request
            .field("Accept", "*/*")
            .field_display("X-Number", number);
        request.send().unwrap();
    }
    connection.flush();
    let written = connection.transmit().len();
    connection.transmitted(written, now);
    let mut ends = 0;
    for _ in 0..depth {
        for piece in response.chunks(piece) {
            let mut input = piece;
            while let Some(event) = connection.poll(&mut input, now) {
                ends += usize::from(matches!(event, Event::End { persists: true, .. }));
            }
        }
    }
    ends
}

#[test]
fn a_warm_client_connection_exchanges_without_allocating() {
    let sized = b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: x\r\n\
        ETag: \"1-2\"\r\nContent-Type: image/gif\r\nContent-Length: 6\r\n\r\nGIF89a";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nGIF89a\r\n0\r\n\r\n";
    for depth in [1, 16] {
        for response in [&sized[..], &chunked[..]] {
            for piece in [1, 7, response.len()] {
                let mut connection = Connection::new(Config {
                    depth,
                    ..Config::default()
                });
                let warm_up = round(&mut connection, depth, response, piece);
                assert_eq!(warm_up, usize::from(depth));
                let before = ALLOCATIONS.with(Cell::get);
                let mut exchanges = 0;
                for _ in 0..100 {
                    exchanges += round(&mut connection, depth, response, piece);
                }
                let allocations = ALLOCATIONS.with(Cell::get) - before;
                assert_eq!(exchanges, 100 * usize::from(depth));
                assert_eq!(allocations, 0, "depth {depth}, pieces of {piece}");
            }
        }
    }
}
