//! Decodes the output of this crate with the programs `gzip`, `brotli` and `zstd`. Also tests that a browser builds the
//! same tree from a document with its tags in lower case.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the tests run other programs on files"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fathometer_content::{Coding, Dictionary, lower_case_tags};

/// Returns whether the program is installed; `./test` installs all of them.
fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    let is_installed = version.is_ok_and(|output| output.status.success());
    if !is_installed {
        let is_required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!is_required, "{program} is required and not installed");
        eprintln!("skipped: {program} is not installed");
    }
    is_installed
}

fn output_of(program: &str, arguments: &[&str], input: &Path) -> Vec<u8> {
    let output = Command::new(program)
        .args(arguments)
        .arg(input)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {:?}", output.status);
    output.stdout
}

fn page(number: u32) -> Vec<u8> {
    let rows: String = (0..40)
        .map(|row| format!("<TR><TD>{}</TD></TR>\n", number.wrapping_mul(row) % 977))
        .collect();
    format!("<TABLE Border=1>\n{rows}</TABLE>").into_bytes()
}

#[test]
fn the_programs_of_each_coding_decode_ours() {
    let folder = tempfile::tempdir().unwrap();
    let levels = [
        (
            "gzip",
            vec![Coding::Gzip(1), Coding::Gzip(6), Coding::Gzip(9)],
        ),
        (
            "brotli",
            vec![Coding::Brotli(4), Coding::Brotli(9), Coding::Brotli(11)],
        ),
        (
            "zstd",
            vec![Coding::Zstd(1), Coding::Zstd(9), Coding::Zstd(19)],
        ),
    ];
    for (program, codings) in levels {
        if !is_installed(program) {
            continue;
        }
        for coding in codings {
            for content in [page(7), Vec::new(), vec![b'x'; 300_000]] {
                let file = folder.path().join(match program {
                    "gzip" => "coded.gz",
                    "brotli" => "coded.br",
                    _ => "coded.zst",
                });
                fs::write(&file, coding.encode(&content).unwrap()).unwrap();
                assert!(
                    output_of(program, &["-d", "-c"], &file) == content,
                    "{coding}"
                );
            }
        }
    }
}

#[test]
fn the_zstd_program_decodes_with_our_dictionary() {
    if !is_installed("zstd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pages: Vec<_> = (1..100).map(page).collect();
    let dictionary = Dictionary::train(&pages, 2048, 19).unwrap();
    let dictionary_file = folder.path().join("dictionary");
    fs::write(&dictionary_file, dictionary.bytes()).unwrap();
    let file = folder.path().join("coded.zst");
    fs::write(&file, dictionary.encode(&pages[5]).unwrap()).unwrap();
    let with = ["-d", "-c", "-D", dictionary_file.to_str().unwrap()];
    assert!(output_of("zstd", &with, &file) == pages[5]);
}

/// Compares the element trees from Chromium, for a document with every construct that the scanner treats specially.
#[test]
fn a_browser_builds_the_same_tree() {
    if !is_installed("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("page.html");
    let html = b"<!DOCTYPE HTML><HTML LANG=EN><HEAD><TITLE>The <B> Tag</TITLE><STYLE>P:after{content:'<B>'}</STYLE>\
        <SCRIPT>var x = '<B>A</B>';</SCRIPTS></SCRIPT></HEAD><BODY BgColor=#FFF onLoad=\"var A=1\">\
        <!-- <B> --><P Align=CENTER Align=LEFT>A < B<BR/>C &AMP; D</P ><!--><IMG Alt='A>B' ISMAP>--><A =B=C D = E>F</A>\
        <SVG ViewBox='0 0 1 1'><linearGradient GradientUnits=X /><FOREIGNOBJECT><P>T</FOREIGNOBJECT></SVG>\
        <? <B><B>x</B></ <I><I>y</I><TEXTAREA><B></TEXTAREA><NOSCRIPT><B>z</B></NOSCRIPT><TABLE><TD>t<XMP><B></XMP>\
        <PLAINTEXT><B></PLAINTEXT>";
    let lower = lower_case_tags(html).unwrap();
    assert_ne!(lower, html);
    let profile = format!(
        "--user-data-dir={}",
        folder.path().join("profile").display()
    );
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        &profile,
        "--dump-dom",
    ];
    let tree = |content: &[u8]| {
        fs::write(&before, content).unwrap();
        String::from_utf8(output_of("chromium", &arguments, &before)).unwrap()
    };
    let expected = tree(html);
    assert!(expected.contains("linearGradient"), "{expected}");
    assert_eq!(tree(&lower), expected);
}
