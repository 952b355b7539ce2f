use fathometer_model::{Bytes, FileId};

use super::*;
use crate::builder::UNKNOWN_SIZE;

fn named(name: &str) -> Workload {
    by_name(name, &Options::default(), |_| unreachable!("no file")).unwrap()
}

#[test]
fn every_name_without_a_file_is_a_workload_with_a_site() {
    for name in NAMES.iter().filter(|name| !name.contains(':')) {
        let workload = named(name);
        assert_eq!(workload.plan.name, *name);
        let site = workload.site(synthetic::TEXT_RATIO, Seed(1));
        assert_eq!(site.pages.len(), workload.plan.pages.len(), "{name}");
        assert_eq!(site.files.len(), workload.files.len(), "{name}");
        let statistics = workload.statistics();
        let total: u64 = site.files.iter().map(|file| file.body.len().0).sum();
        assert_eq!(total, statistics.total.0, "{name}");
        for (file, spec) in site.files.iter().zip(&workload.files) {
            assert_eq!(file.body.len().0, spec.size, "{name} {}", file.path);
            assert_eq!(
                (&file.path, &*file.content_type),
                (&spec.path, spec.content_type)
            );
        }
        for (target, spec) in workload.plan.targets.iter().zip(&workload.files) {
            assert_eq!(
                target.size,
                Some(Bytes(spec.size)),
                "{name} {}",
                target.path
            );
        }
    }
}

#[test]
fn every_name_with_a_file_reads_it() {
    let texts = [
        ("webstone:", "/a.html 1 #5\n"),
        ("wsesslog:", "/a.html\n"),
        (
            "log:",
            "h - - [10/Oct/2000:13:55:36 -0700] \"GET /a.html HTTP/1.0\" 200 5\n",
        ),
        (
            "har:",
            r#"{"log":{"entries":[{"startedDateTime":"2024-05-01T10:00:00Z",
                "request":{"method":"GET","url":"http://h/a.html"},"response":{"status":200}}]}}"#,
        ),
    ];
    for (kind, text) in texts {
        assert!(NAMES.contains(&&*format!("{kind}FILE")));
        let workload = by_name(&format!("{kind}x/y:z"), &Options::default(), |file| {
            assert_eq!(file, "x/y:z");
            Ok(text.to_owned())
        });
        assert_eq!(workload.unwrap().files[0].path, "/a.html");
        let fault = by_name(&format!("{kind}x"), &Options::default(), |_| {
            Ok(String::new())
        });
        assert!(fault.unwrap_err().to_string().starts_with("x: "));
    }
}

#[test]
fn the_error_for_an_unknown_name_lists_the_known_names() {
    for name in ["webstoned", "csv:file"] {
        let error = by_name(name, &Options::default(), |_| unreachable!("no file"));
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains("leucht15-small, "),
            "{message}"
        );
    }
    let none = Options {
        directories: 0,
        ..Options::default()
    };
    let error = by_name("specweb96", &none, |_| unreachable!("no file")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a SPECweb site has at least one directory"
    );
    let error = by_name("log:gone", &Options::default(), |_| {
        Err(io::ErrorKind::NotFound.into())
    });
    assert_eq!(error.unwrap_err().to_string(), "failed to read gone");
}

#[test]
fn a_file_has_one_path_however_it_is_spelt() {
    let mut builder = Builder::default();
    builder.add_file("/%61.html?x", "text/html", Some(7));
    builder.add_file("/a.html", "text/html", Some(9));
    for none in ["/../a", "/%2e/a", "/a%2fb", "/%zz", "/%", "/%00", "a", "/ü"] {
        builder.add_file(none, "text/html", Some(1));
    }
    builder.add_file("/a.html", "text/html", None);
    assert_eq!(builder.files.len(), 1);
    assert_eq!(
        (builder.files[0].path.as_str(), builder.files[0].size),
        ("/%61.html", 9)
    );
}

#[test]
fn a_page_of_files_keeps_its_dependencies_when_some_have_none() {
    let mut builder = Builder::default();
    let base = builder.file("/a.html", "text/html", 900);
    let missing = builder.target("GET", "/gone", None);
    let style = builder.file("/a.css", "text/css", 900);
    let font = builder.file("/f.woff2", "font/woff2", 900);
    let members = [base, missing, style, style, font];
    let workload = builder.one_page("test", &members, Some(&[0, 0, 0, 0, 3]));
    let page = &workload.site(0.3, Seed(1)).pages[0];
    assert_eq!(page.embedded, [FileId(1), FileId(2)]);
    assert_eq!(page.named_by, [None, Some(0)]);
}

#[test]
fn statistics_are_written_for_people_and_programs() {
    let statistics = named("almeida-a").statistics();
    assert_eq!(
        statistics.to_string(),
        "files             18 (305152 B)\n\
         file size         mean 16953 B, median 5632 B, largest 122880 B\n\
         \x20 text/html       18 (305152 B)\n\
         pages             18, 1.00 files each; 1.00 requests each, weighted by requests\n\
         request           12187 B of content on average"
    );
    let json = serde_json::to_value(&statistics).unwrap();
    assert_eq!(json["by_type"]["text/html"]["files"], 18);
    assert_eq!(json["median"], 5632.0);
}

#[test]
fn an_empty_file_is_not_one_of_unknown_size() {
    let mut builder = Builder::default();
    builder.add_file("/later", "text/html", None);
    builder.add_file("/later", "text/html", Some(0));
    builder.add_file("/never", "text/html", None);
    let target = builder.target("GET", "/later", None);
    let workload = builder.one_page("test", &[target], None);
    let sizes: Vec<u64> = workload.files.iter().map(|file| file.size).collect();
    assert_eq!(sizes, [0, UNKNOWN_SIZE]);
    assert_eq!(
        workload.notes,
        [
            "the sizes of 1 files are unknown: any size is accepted, and in a site made from this workload each of these files has 1024 B"
        ]
    );
}
