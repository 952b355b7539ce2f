//! Compares V.42bis with an independent implementation, the library spandsp, in both directions.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "runs the other implementation"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fathometer_model::Seed;
use fathometer_path::v42bis::{Decoder, Encoder, Parameters};

/// Returns the output of spandsp for each block; `None` if spandsp is not installed.
fn spandsp(
    verb: &str,
    parameters: Parameters,
    mode: &str,
    blocks: &[Vec<u8>],
) -> Option<Vec<Vec<u8>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spandsp.py");
    let started = Command::new("python3")
        .arg(script)
        .arg(verb)
        .arg(parameters.codewords().to_string())
        .arg(parameters.longest_string().to_string())
        .arg(mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        return missing("python3 is not installed");
    };
    let mut stdin = child.stdin.take().unwrap();
    let input: Vec<u8> = blocks
        .iter()
        .flat_map(|block| [&(block.len() as u32).to_be_bytes()[..], block].concat())
        .collect();
    // The script writes while it reads, so a separate thread writes its input.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // Fails if the script exits early; the exit status then reports the failure.
            let _ = stdin.write_all(&input);
        });
        child.wait_with_output().unwrap()
    });
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        return missing(&complaint);
    }
    assert!(output.status.success(), "{verb} {mode}: {complaint}");
    let mut rest = &output.stdout[..];
    let mut made = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (block, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
        made.push(block.to_vec());
        rest = behind;
    }
    Some(made)
}

fn missing(why: &str) -> Option<Vec<Vec<u8>>> {
    let is_required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some();
    assert!(!is_required, "spandsp: {why}");
    eprintln!("not run, spandsp: {why}");
    None
}

/// Builds blocks of markup, of noise and of runs, with lengths of about 1 to 1500 bytes.
fn blocks(seed: Seed, share_of_noise: u64) -> Vec<Vec<u8>> {
    let mut counter = 0;
    let mut draw = |below: u64| {
        counter += 1;
        seed.draw(counter) % below
    };
    const WORDS: [&str; 12] = [
        "<td>",
        "</td>\n",
        "<img src=\"",
        "dot.gif\"",
        " width=1",
        "<a href=\"/",
        "products",
        "\">",
        "</a>",
        "the ",
        "Software ",
        "\0",
    ];
    (0..60)
        .map(|_| {
            let (length, is_noise) = (1 + draw(1500) as usize, draw(100) < share_of_noise);
            let mut block = Vec::new();
            while block.len() < length {
                match draw(40) {
                    _ if is_noise => block.push(draw(256) as u8),
                    0 => block.extend(vec![draw(256) as u8; draw(90) as usize]),
                    _ => block.extend(WORDS[draw(12) as usize].as_bytes()),
                }
            }
            block
        })
        .collect()
}

const PARAMETERS: [(u16, u8); 5] = [(512, 6), (512, 250), (1024, 32), (2048, 32), (4096, 64)];

#[test]
fn spandsp_decodes_what_we_encode() {
    for (n, (codewords, longest)) in PARAMETERS.into_iter().enumerate() {
        for noise in [0, 50, 100] {
            let parameters = Parameters::new(codewords, longest).unwrap();
            let blocks = blocks(Seed(n as u64), noise);
            let mut encoder = Encoder::new(parameters);
            let line: Vec<Vec<u8>> = blocks
                .iter()
                .map(|block| {
                    let mut line = Vec::new();
                    encoder.encode(block, &mut line);
                    encoder.flush(&mut line);
                    line
                })
                .collect();
            let Some(decoded) = spandsp("decompress", parameters, "dynamic", &line) else {
                return;
            };
            let differs = (0..blocks.len()).find(|&n| decoded[n] != blocks[n]);
            assert_eq!(differs, None, "{parameters:?}, {noise} % noise");
        }
    }
}

#[test]
fn we_decode_what_spandsp_encodes() {
    for (n, (codewords, longest)) in PARAMETERS.into_iter().enumerate() {
        for (mode, noise) in [
            ("dynamic", 0),
            ("dynamic", 50),
            ("always", 0),
            ("always", 50),
            ("never", 100),
        ] {
            let parameters = Parameters::new(codewords, longest).unwrap();
            let blocks = blocks(Seed(n as u64), noise);
            let Some(line) = spandsp("compress", parameters, mode, &blocks) else {
                return;
            };
            let (mut decoder, mut decoded) = (Decoder::new(parameters), Vec::new());
            for (n, line) in line.iter().enumerate() {
                let result = decoder.decode(line, &mut decoded);
                assert_eq!(result, Ok(()), "{parameters:?}, {mode}, block {n}");
            }
            assert!(decoded == blocks.concat(), "{parameters:?}, {mode}");
        }
    }
}
