//! `fathometer content`: exact sizes, the shared dictionary, images, and files that cannot be treated.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use crate::support::programs::{FATHOMETER, run, run_well};

/// Returns a pseudo-random number.
fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a page with a menu that all pages share, its own text, and tags in both letter cases.
fn page(number: u64) -> String {
    let menu: String = (1..20)
        .map(|item| {
            format!(
                "<LI><A HREF=/{:x}>{:x}</A>\n",
                mixed(item),
                mixed(item + 100)
            )
        })
        .collect();
    let own: String = (0..20)
        .map(|word| format!("<Li><a href=x>{:x}</a>\n", mixed(number * 1000 + word)))
        .collect();
    format!("<HTML><TITLE>{number}</TITLE>\n{menu}{own}</HTML>\n")
}

fn bytes_of<'a>(result: &'a Value, treatment: &str) -> Option<&'a Value> {
    let rows = result["treatments"].as_array().unwrap();
    rows.iter().find(|row| row["treatment"] == treatment)
}

#[test]
fn each_treatment_of_a_site_has_exact_bytes_and_a_broken_file_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path();
    for number in 0..60 {
        fs::write(site.join(format!("{number}.html")), page(number)).unwrap();
    }
    fs::write(site.join("binary.HTML"), b"\0<B>\x01\xff").unwrap();
    fs::write(site.join("large"), vec![b'x'; 9000]).unwrap();
    symlink(site, site.join("loop")).unwrap();
    let mut command = Command::new(FATHOMETER);
    command
        .args(["content", "--json", "--repeat", "2", "--max-file", "8000"])
        .arg(site);
    let output = run(&command);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("large: it is longer than 8000 bytes"),
        "{message}"
    );
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["files"], 61);
    assert_eq!(result["files_failed"], 1);
    assert_eq!(result["entries_skipped"], 1);

    // The expected size: gzip at its best level, by flate2 in this test.
    let expected: usize = (0..60)
        .map(|number| {
            let mut coded = Vec::new();
            let page = page(number);
            let level = flate2::Compression::new(9);
            std::io::Read::read_to_end(
                &mut flate2::read::GzEncoder::new(page.as_bytes(), level),
                &mut coded,
            )
            .unwrap();
            coded.len()
        })
        .sum();
    assert_eq!(bytes_of(&result, "gzip 9").unwrap()["bytes"], expected + 6);

    let bytes = |treatment| {
        bytes_of(&result, treatment).unwrap()["bytes"]
            .as_u64()
            .unwrap()
    };
    assert!(bytes("tags in lower case, gzip 6") < bytes("gzip 6"));
    let shared = bytes("zstd 19 with a dictionary of the site");
    assert!(shared > result["dictionary_bytes"].as_u64().unwrap());
    assert!(shared < bytes("zstd 19"), "{shared}");
    let rows = result["treatments"].as_array().unwrap();
    assert!(rows.is_sorted_by_key(|row| row["bytes"].as_u64()));
    assert!(
        rows.iter()
            .all(|row| row["encode_s"].as_array().unwrap().len() == 2)
    );
    assert_eq!(result["largest_savings"].as_array().unwrap().len(), 10);
}

#[test]
fn the_table_begins_with_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page.html"), page(1).repeat(3)).unwrap();
    let table = run_well(Command::new(FATHOMETER).arg("content").arg(folder.path()));
    let table = String::from_utf8(table).unwrap();
    assert!(
        table.starts_with("The largest saving on this site is "),
        "{table}"
    );
    assert!(table.contains("no shared dictionary"), "{table}");
}

#[test]
fn a_folder_without_files_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(Command::new(FATHOMETER).arg("content").arg(folder.path()));
    assert_eq!(output.status.code(), Some(2));
}

/// Checks the page of a report that lists all files.
#[cfg(feature = "images")]
fn the_page_has_all_images_that_are_smaller(page: &str, result: &Value) {
    let treatments = result["treatments"].as_array().unwrap();
    let best = treatments[0]["treatment"].as_str().unwrap();
    let answer = page.find("The largest saving on this site is ").unwrap();
    let table = page.find("<table").unwrap();
    assert!(answer < table && page[answer..table].contains(best));
    let listed = result["largest_savings"].as_array().unwrap();
    let pairs: Vec<&str> = page.split("<article class=\"pair\">").skip(1).collect();
    assert!(pairs.len() >= 20, "{}", pairs.len());
    for pair in &pairs {
        assert_eq!(pair.matches("<img src=\"data:image/").count(), 2, "{pair}");
        assert!(pair.contains("data:image/gif;base64,R0lGOD"), "{pair}");
        assert!(pair.contains("; the same pixels"), "{pair}");
    }
    // The page also shows each image that is smallest in another image format.
    for file in listed {
        let path = file["path"].as_str().unwrap();
        let treatment = file["treatment"].as_str().unwrap();
        let is_image = treatment.contains("PNG");
        assert!(!is_image || pairs.iter().any(|pair| pair.contains(path)));
    }
    assert!(!page.contains("http:") && !page.contains("https:"));
}

/// The microscape site with its 42 images; and images with a wrong file name, truncated images and too large images.
#[cfg(feature = "images")]
#[test]
fn images_are_treated_and_a_broken_one_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    run_well(
        Command::new(FATHOMETER)
            .args(["site", "microscape"])
            .arg(&site),
    );
    let content = |arguments: &[&str]| {
        let mut command = Command::new(FATHOMETER);
        command
            .args(["content", "--json", "--repeat", "1", "--files", "100"])
            .args(arguments)
            .arg(&site);
        run(&command)
    };
    let page = folder.path().join("page.html");
    let output = content(&["--report", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    the_page_has_all_images_that_are_smaller(&fs::read_to_string(page).unwrap(), &result);
    assert_eq!(result["images"], 42);
    assert_eq!(result["images_failed"], 0);
    let still = bytes_of(&result, "GIF to PNG").unwrap();
    let animated = bytes_of(&result, "animated GIF to APNG").unwrap();
    assert_eq!(still["images"], 40);
    assert_eq!(animated["images"], 2);
    let bytes = |row: &Value| row["bytes"].as_u64().unwrap();
    assert!(bytes(still) < bytes(&result));
    assert!(bytes(animated) < bytes(&result));
    let together = bytes_of(&result, "lossless images, brotli 11 for the rest").unwrap();
    let brotli = bytes_of(&result, "brotli 11").unwrap();
    assert!(bytes(together) < bytes(brotli));
    // Every file is listed with its smallest size, and no lossy treatment applies.
    let listed = result["largest_savings"].as_array().unwrap();
    let saved = |row: &Value| bytes(row) - row["treated_bytes"].as_u64().unwrap();
    let of_images = listed.iter().filter(|row| {
        let treatment = row["treatment"].as_str().unwrap();
        treatment.contains("PNG") || treatment == "brotli 11"
    });
    let of_images: u64 = of_images.map(saved).sum();
    assert!(bytes(&result) - bytes(together) >= of_images);

    let gif = fs::read_dir(site.join("images"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let gif = gif.filter(|path| path.extension().is_some_and(|end| end == "gif"));
    let gif = fs::read(gif.min().unwrap()).unwrap();
    fs::write(site.join("lie.png"), &gif).unwrap();
    fs::write(site.join("text.jpg"), "no image at all").unwrap();
    fs::write(site.join("cut.gif"), &gif[..gif.len() / 2]).unwrap();
    let mut large = gif;
    large[6..10].fill(0xff);
    fs::write(site.join("large.gif"), &large).unwrap();
    let output = content(&[]);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    for expected in [
        "lie.png: its name indicates PNG, its first bytes indicate GIF",
        "text.jpg: its name indicates JPEG, its first bytes indicate no image",
        "cut.gif: the image is malformed",
        "large.gif: 1 frames of 65535 x 65535 pixels are more than 40000000 pixels",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["images"], 46);
    assert_eq!(result["images_failed"], 4);
    assert_eq!(bytes_of(&result, "GIF to PNG").unwrap()["images"], 40);
}

#[test]
fn a_page_over_a_modem_is_predicted_as_it_is_and_coded() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), page(1)).unwrap();
    let mut command = Command::new(FATHOMETER);
    command
        .args(["content", "--json", "--repeat", "1", "--path", "ppp"])
        .args(["--policy", "h1.1"])
        .arg(folder.path());
    let result: Value = serde_json::from_slice(&run_well(&command)).unwrap();
    let rows = result["predictions"].as_array().unwrap();
    let seconds = |place: usize| rows[place]["seconds"].as_f64().unwrap();
    let treatments: Vec<_> = rows.iter().map(|row| row["treatment"].as_str()).collect();
    assert_eq!(treatments, [Some("as it is"), Some("gzip 6")]);
    // Two round trips of 150 ms, and the transmission of the page at 28.8 kbit/s.
    let least = 0.3 + page(1).len() as f64 * 8.0 / 28_800.0;
    assert!((least..least + 0.3).contains(&seconds(0)), "{rows:?}");
    assert!(seconds(1) < seconds(0), "{rows:?}");
}

#[test]
fn a_prediction_over_a_path_that_is_not_in_the_model_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), page(1)).unwrap();
    let mut command = Command::new(FATHOMETER);
    command
        .args(["content", "--repeat", "1", "--path", "lossy"])
        .arg(folder.path());
    let output = run(&command);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("random loss"), "{message}");
}
