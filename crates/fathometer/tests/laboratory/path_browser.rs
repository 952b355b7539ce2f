//! A browser loads the Microscape site from our origin over an emulated path, over HTTP/2 and HTTP/3.
//!
//! Needs the right to create network namespaces and TUN devices, Chromium and openssl. Without them, the test
//! prints a message and passes, unless `FATHOMETER_REQUIRE_LAB=1` and `FATHOMETER_REQUIRE_TOOLS=1`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::laboratory::possible;
use crate::support::programs::{FATHOMETER, run_well, tool};

/// The images of the page, each file counted once.
const IMAGES: usize = 42;
const NAME: &str = "site.test";

/// Reports which images were decoded, and which protocols transferred the files.
const CHECK: &str = "<script>\n\
    window.addEventListener('load', function () {\n\
      var good = {};\n\
      for (var image of document.images) {\n\
        var whole = image.complete && image.naturalWidth == image.getAttribute('width')\n\
          && image.naturalHeight == image.getAttribute('height');\n\
        if (whole) good[image.getAttribute('src')] = 1;\n\
      }\n\
      var entries = performance.getEntriesByType('resource')\n\
        .concat(performance.getEntriesByType('navigation'));\n\
      var names = new Set(entries.map(function (entry) { return entry.nextHopProtocol; }));\n\
      document.body.setAttribute('data-came',\n\
        Object.keys(good).length + ' by ' + Array.from(names).sort().join(' '));\n\
    });\n\
    </script>\n";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes the site with its check, a key and its certificate. Returns the hash with which the browser accepts the key,
/// because the browser does not trust our authority.
fn set_up(folder: &Path, openssl: &Path) -> String {
    let site = folder.join("site");
    run_well(
        Command::new(FATHOMETER)
            .args(["site", "microscape"])
            .arg(&site),
    );
    let page = fs::read_to_string(site.join("microscape.html")).unwrap();
    fs::write(site.join("check.html"), page + CHECK).unwrap();
    run_well(
        Command::new(openssl)
            .current_dir(folder)
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
            .args([
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-keyout",
                "key.pem",
            ])
            .args(["-out", "chain.pem", "-days", "30", "-subj"])
            .arg(format!("/CN={NAME}"))
            .args(["-addext", &format!("subjectAltName=DNS:{NAME}")]),
    );
    let hash = "\"$1\" x509 -in chain.pem -pubkey -noout | \"$1\" pkey -pubin -outform der \
                | \"$1\" dgst -sha256 -binary | base64";
    let hash = run_well(
        Command::new("sh")
            .current_dir(folder)
            .args(["-c", hash, "sh"])
            .arg(openssl),
    );
    text(&hash).trim().to_owned()
}

#[test]
fn chromium_loads_the_site_over_an_emulated_path() {
    let name = "chromium_loads_the_site_over_an_emulated_path";
    let (true, Some(chromium), Some(openssl)) = (possible(name), tool("chromium"), tool("openssl"))
    else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let hash = set_up(folder, &openssl);
    let serve = format!(
        "exec {FATHOMETER} serve {0}/site --listen 10.77.0.2:8443 --http3 --certificate {0}/chain.pem \
         --key {0}/key.pem --log {0}/log",
        folder.display()
    );
    // Starts the browser as soon as the server answers.
    let browse = "until \"$1\" fetch -k --policy h2 https://10.77.0.2:8443/images/none >/dev/null 2>&1; \
                  [ -s \"$2/log\" ]; do sleep 0.2; done; shift 2; exec \"$@\"";
    for (protocol, force) in [("h2", None), ("h3", Some(NAME))] {
        let _ = fs::remove_file(folder.join("log"));
        let mut command = Command::new(FATHOMETER);
        command
            .args(["path", "wan", "--server", &serve, "--"])
            .args(["sh", "-c", browse, "sh", FATHOMETER])
            .arg(folder)
            .arg(&chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--no-proxy-server"])
            .arg(format!("--host-resolver-rules=MAP {NAME} 10.77.0.2"))
            .arg(format!("--ignore-certificate-errors-spki-list={hash}"))
            .arg(format!(
                "--user-data-dir={}",
                folder.join(protocol).display()
            ));
        match force {
            Some(name) => command.arg(format!("--origin-to-force-quic-on={name}:8443")),
            None => command.arg("--disable-quic"),
        };
        let output = command
            .args(["--virtual-time-budget=60000", "--dump-dom"])
            .arg(format!("https://{NAME}:8443/check.html"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (page, error) = (text(&output.stdout), text(&output.stderr));
        // Exit code 3: a browser keeps both processors busy, so the path reports that it was late.
        assert!(
            [Some(0), Some(3)].contains(&output.status.code()),
            "{error}"
        );
        let came = page.split_once("data-came=\"").map(|(_, rest)| rest);
        let came = came.and_then(|rest| rest.split_once('"'));
        let came = came.map_or_else(|| panic!("{page}\n{error}"), |(came, _)| came);
        assert_eq!(came, format!("{IMAGES} by {protocol}"), "{error}");
        // The page and every image crossed the path.
        let log = fs::read_to_string(folder.join("log")).unwrap();
        let images = log.lines().filter(|line| line.contains("GET /images/"));
        assert!(
            images.filter(|line| line.contains("\" 200 ")).count() >= IMAGES,
            "{log}"
        );
    }
}
