//! Content negotiation of `fathometer serve` with curl and our own client, and beside nginx.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::support::{Response, Server, inflate};
use crate::support::programs::{FATHOMETER, run_well, tool};

/// Returns compressible text with `lines` lines.
fn text(lines: u32) -> Vec<u8> {
    (0..lines)
        .flat_map(|n| format!("<li>{:x}</li>\n", n.wrapping_mul(0x9e37_79b9) >> 8).into_bytes())
        .collect()
}

fn compressed(program: &str, level: &str, content: &Path) -> Vec<u8> {
    run_well(Command::new(program).args([level, "--stdout"]).arg(content))
}

/// Writes a page, a style sheet that is compressed in advance, a short text, and an image in three types.
fn site() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    write("page.html", &text(2000));
    write("style.css", &text(1000));
    write("short.txt", &text(10));
    write("x.png", &[1; 3000]);
    write("x.webp", &[2; 2000]);
    write("x.avif", &[3; 1000]);
    let style = folder.path().join("style.css");
    write("style.css.gz", &compressed("gzip", "-9", &style));
    folder
}

const CURL: [&str; 4] = ["--silent", "--show-error", "--max-time", "60"];

fn curl(server: &Server, path: &str, arguments: &[&str]) -> Response {
    let printed = run_well(
        Command::new("curl")
            .args(CURL)
            .arg("--include")
            .args(arguments)
            .arg(server.url(path)),
    );
    Response::parse(&printed)
}

#[test]
fn curl_decodes_every_coding_in_every_version() {
    if tool("curl").is_none() {
        return;
    }
    let site = site();
    let page = text(2000);
    let compress = ["--compress", "br:4,zstd:3,gzip:6,deflate:6"];
    let plain = Server::origin(site.path(), &compress);
    let secure = Server::secure(site.path(), &compress);
    let root = secure.root();
    let root = root.to_str().unwrap();
    let versions: [(&Server, &[&str]); 4] = [
        (&plain, &["--http1.0"]),
        (&plain, &["--http1.1"]),
        (&plain, &["--http2-prior-knowledge"]),
        (&secure, &["--http2", "--cacert", root]),
    ];
    let mut tags = std::collections::BTreeSet::new();
    for (server, version) in versions {
        for coding in ["br", "zstd", "gzip", "deflate"] {
            let accept = format!("Accept-Encoding: {coding}");
            let arguments = [version, &["--compressed", "--header", &accept]].concat();
            let response = curl(server, "page.html", &arguments);
            assert_eq!(
                response.field("Content-Encoding"),
                Some(coding),
                "{version:?}"
            );
            assert_eq!(
                response.field("Vary"),
                Some("Accept-Encoding"),
                "{version:?}"
            );
            assert!(
                response.content == page,
                "{coding} {version:?}: the content differs from the page"
            );
            tags.insert(response.field("ETag").unwrap().to_owned());
        }
    }
    assert_eq!(
        tags.len(),
        4,
        "one entity tag for each coding, the same over all protocols: {tags:?}"
    );
    // HTTP/3, by our own client: the coded bytes equal those that curl gets.
    let gzip = ["--header", "Accept-Encoding: gzip"];
    let coded = curl(&plain, "page.html", &gzip).content;
    let http3 = Server::secure(site.path(), &["--protocols", "h1,h3", "--compress", "gzip"]);
    let printed = run_well(
        Command::new(FATHOMETER)
            .args([
                "fetch",
                "--policy",
                "h3",
                "--compressed",
                "--json",
                "--cacert",
            ])
            .arg(http3.root())
            .arg(http3.url("page.html")),
    );
    let fetched: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    let bytes = &fetched["files"][0]["bytes"];
    assert_eq!(bytes, &serde_json::json!(coded.len()), "{fetched}");
}

#[test]
fn variants_beside_a_file_are_served_if_enabled() {
    if ["curl", "brotli", "zstd"]
        .iter()
        .any(|name| tool(name).is_none())
    {
        return;
    }
    let site = site();
    let style = site.path().join("style.css");
    let coded = |program, level, ending: &str| {
        let bytes = compressed(program, level, &style);
        fs::write(site.path().join(format!("style.css.{ending}")), &bytes).unwrap();
        bytes
    };
    let brotli = coded("brotli", "-9", "br");
    let zstd = coded("zstd", "-19", "zst");
    let by_default = Server::origin(site.path(), &[]);
    let negotiating = Server::origin(site.path(), &["--negotiate"]);
    let all = ["--header", "Accept-Encoding: gzip, deflate, br, zstd"];
    let old = curl(&by_default, "style.css", &all);
    assert_eq!(old.field("Content-Encoding"), Some("gzip"));
    let best = curl(&negotiating, "style.css", &all);
    let smallest = brotli.len().min(zstd.len());
    assert!(best.content == brotli || best.content == zstd);
    assert_eq!(best.content.len(), smallest);
    for (coding, bytes) in [("br", &brotli), ("zstd", &zstd)] {
        let accept = format!("Accept-Encoding: {coding}");
        let response = curl(&negotiating, "style.css", &["--header", &accept]);
        assert_eq!(response.field("Content-Encoding"), Some(coding));
        assert!(response.content == *bytes);
    }
    let accept = ["--header", "Accept: image/avif,image/webp,*/*;q=0.8"];
    let image = curl(&negotiating, "x.png", &accept);
    assert_eq!(image.field("Content-Type"), Some("image/avif"));
    assert_eq!(image.field("Content-Location"), Some("/x.avif"));
    let image = curl(&by_default, "x.png", &accept);
    assert_eq!(image.field("Content-Type"), Some("image/png"));
    assert_eq!(image.field("Vary"), None);
}

/// A file above 64 KB is sent from its descriptor, not from memory. It is compressed only after it has not changed for
/// two seconds.
#[test]
fn a_file_behind_a_descriptor_is_compressed_and_its_change_is_seen() {
    if tool("curl").is_none() {
        return;
    }
    let site = site();
    let path = site.path().join("long.txt");
    let server = Server::origin(site.path(), &["--compress", "gzip:1"]);
    let compressed = ["--compressed", "--header", "Accept-Encoding: gzip"];
    let mut last = String::new();
    for lines in [20_000, 20_001] {
        let content = text(lines);
        fs::write(&path, &content).unwrap();
        let coded = (0..600).find_map(|_| {
            let response = curl(&server, "long.txt", &compressed);
            assert!(
                response.content == content,
                "the response must have the current content, coded or not"
            );
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
            if response.field("Content-Encoding") == Some("gzip") {
                return Some(response.field("ETag").unwrap().to_owned());
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            None
        });
        let tag = coded.expect("the file is compressed after two seconds");
        assert!(tag.starts_with('"') && tag != last, "{tag} after {last}");
        last = tag;
    }
}

const NGINX: &str = "daemon off; worker_processes 1; error_log /dev/null; pid FOLDER/pid;\n\
    events {}\n\
    http {\n\
      access_log off;\n\
      types { text/html html; text/css css; text/plain txt; image/png png; }\n\
      client_body_temp_path FOLDER/a; proxy_temp_path FOLDER/b; fastcgi_temp_path FOLDER/c;\n\
      uwsgi_temp_path FOLDER/d; scgi_temp_path FOLDER/e;\n\
      gzip on; gzip_static on; gzip_vary on; gzip_min_length 256; gzip_types text/css text/plain;\n\
      server { listen ADDRESS; root ROOT; }\n\
    }\n";

/// Returns the status, the coding, whether the response varies by `Accept-Encoding`, and whether the content equals the
/// file.
fn answer(
    python: &Path,
    server: &Server,
    path: &str,
    arguments: &[&str],
    content: &[u8],
) -> String {
    let response = curl(server, path, arguments);
    let coding = response.field("Content-Encoding").unwrap_or("-");
    let varies = match response.field("Vary") {
        Some("Accept-Encoding") => " varies",
        Some(other) => panic!("Vary: {other}"),
        None => "",
    };
    let decoded = match coding {
        "gzip" if response.status() == 200 && !response.content.is_empty() => {
            inflate(python, &response.content)
        }
        _ => response.content.clone(),
    };
    let is_whole = match decoded.len() {
        0 => " empty",
        _ if decoded == content => " whole",
        _ => "",
    };
    format!("{} {coding}{varies}{is_whole}", response.status())
}

/// A request with our response and, if nginx differs, its response and the reason.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static str,
    Option<(&'static str, &'static str)>,
);

/// nginx considers only `gzip`, and ignores the weights of all other codings.
const GZIP_ALONE: &str = "nginx reads only the weight of gzip";
/// RFC 9110 section 12.5.3 permits both 406 and content without a coding.
const REFUSED: &str = "nginx sends content without a coding to a client that refuses it";
/// RFC 9110 section 15.4.5 requires Vary in a 304 response.
const NO_VARY: &str = "nginx sends 304 without Vary";
/// nginx has one entity tag for all codings, which is weak if nginx compresses.
const ONE_TAG: &str = "nginx has one entity tag for a file in all codings";

const ROWS: [Row; 30] = [
    ("page.html", &[], "200 - varies whole", None),
    (
        "page.html",
        &["Accept-Encoding:"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: GZIP"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=1.0"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=0.001"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=0"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=0.000"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: deflate, gzip"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: br, zstd"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip, br"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: identity"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=0.5, identity"],
        "200 - varies whole",
        Some(("200 gzip varies whole", GZIP_ALONE)),
    ),
    (
        "page.html",
        &["Accept-Encoding: *"],
        "200 gzip varies whole",
        Some(("200 - varies whole", GZIP_ALONE)),
    ),
    (
        "page.html",
        &["Accept-Encoding: x-gzip"],
        "200 gzip varies whole",
        Some((
            "200 - varies whole",
            "nginx does not support the alias x-gzip",
        )),
    ),
    (
        "page.html",
        &["Accept-Encoding: identity;q=0"],
        "406 - varies",
        Some(("200 - varies whole", REFUSED)),
    ),
    (
        "page.html",
        &["Accept-Encoding: *;q=0"],
        "406 - varies",
        Some(("200 - varies whole", REFUSED)),
    ),
    (
        "page.html",
        &["Accept-Encoding: identity;q=0, gzip"],
        "200 gzip varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=2"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip;q=x"],
        "200 - varies whole",
        None,
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip", "Range: bytes=0-9"],
        "206 gzip varies",
        Some((
            "200 gzip varies whole",
            "nginx compresses while it sends, so the length is unknown in advance",
        )),
    ),
    ("page.html", &["Range: bytes=0-9"], "206 - varies", None),
    (
        "page.html",
        &["If-None-Match: *"],
        "304 - varies empty",
        Some(("304 - empty", NO_VARY)),
    ),
    (
        "page.html",
        &["Accept-Encoding: gzip", "Cache-Control: no-transform"],
        "200 - varies whole",
        Some(("200 gzip varies whole", "nginx ignores no-transform")),
    ),
    ("style.css", &[], "200 - varies whole", None),
    (
        "style.css",
        &["Accept-Encoding: gzip"],
        "200 gzip varies whole",
        None,
    ),
    (
        "style.css",
        &["Accept-Encoding: gzip", "Range: bytes=0-9"],
        "206 gzip varies",
        Some((
            "200 gzip varies whole",
            "nginx sends no ranges of precompressed files",
        )),
    ),
    ("short.txt", &["Accept-Encoding: gzip"], "200 - whole", None),
    ("x.png", &["Accept-Encoding: gzip"], "200 - whole", None),
    (
        "page.html",
        &["Accept-Encoding: gzip", "If-None-Match: TAG OF PLAIN"],
        "200 gzip varies whole",
        Some(("304 - empty", ONE_TAG)),
    ),
];

#[test]
fn thirty_requests_are_answered_as_by_nginx_or_the_reason_is_stated() {
    let (Some(nginx), Some(python), Some(_)) = (tool("nginx"), tool("python3"), tool("curl"))
    else {
        return;
    };
    let site = site();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(site.path(), readable).unwrap();
    let ours = Server::origin(site.path(), &["--compress", "gzip:6"]);
    let theirs = Server::foreign("nginx", |address, folder| {
        let configuration = NGINX
            .replace("FOLDER", folder.to_str().unwrap())
            .replace("ADDRESS", &address.to_string())
            .replace("ROOT", site.path().to_str().unwrap());
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(&nginx);
        command.arg("-e").arg("/dev/null").arg("-c").arg(file);
        command
    });
    let mut wrong = Vec::new();
    for (path, fields, expected, other) in ROWS {
        let content = fs::read(site.path().join(path)).unwrap();
        for (server, expected) in [
            (&ours, expected),
            (&theirs, other.map_or(expected, |(answer, _)| answer)),
        ] {
            let named = |field: &&str| match field.strip_suffix("TAG OF PLAIN") {
                None => (*field).to_owned(),
                Some(name) => format!("{name}{}", curl(server, path, &[]).field("ETag").unwrap()),
            };
            let fields: Vec<String> = fields.iter().map(named).collect();
            let arguments: Vec<&str> = fields
                .iter()
                .flat_map(|field| ["--header", field])
                .collect();
            let answer = answer(&python, server, path, &arguments, &content);
            if answer != expected {
                let url = server.url(path);
                wrong.push(format!("{url} {fields:?}: {answer}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
