use proptest::prelude::*;

proptest! {
    #[test]
    fn any_script_passes_the_fuzz_entry(
        start in any::<[u8; 3]>(),
        script in script(),
    ) {
        super::fuzz(&[&start[..], &script].concat());
    }
}

/// Operations of [`super::fuzz`], among them whole responses.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let responses = prop::sample::select(vec![
        &b"HTTP/1.1 200 OK\r\nETag: \"b\"\r\nContent-Length: 20\r\n\r\n<img src=a><img src=d"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n<img src=a>",
        b"HTTP/1.0 200 OK\r\n\r\n<img src=a><img src=b>",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/20\r\nContent-Length: 10\r\n\r\nGIF89a\x01\0\x01\0",
        b"HTTP/1.1 206 P\r\nContent-Range: bytes 10-19/20\r\nContent-Length: 10\r\n\r\n0123456789",
        b"HTTP/1.1 416 R\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 3\r\n\r\nabc",
        b"garbage",
    ]);
    let data = (0u8..4, responses)
        .prop_map(|(conn, response)| [&[conn << 3, response.len() as u8], response].concat());
    let other = (0u8..4, 2u8..8).prop_map(|(conn, operation)| vec![conn << 3 | operation]);
    // Connect and write, most of the time.
    let proceed = (0u8..4).prop_map(|conn| vec![conn << 3 | 6, conn << 3 | 7]);
    let step = prop_oneof![4 => data, 2 => other, 6 => proceed];
    prop::collection::vec(step, 0..40).prop_map(|steps| steps.concat())
}
