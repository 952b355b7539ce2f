//! Content that is produced while it is sent, in virtual time: as a single file, and as a file of unknown size
//! in a package.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{BundleAnswer, Retrieval, ValidatorCache, Visit};
use fathometer_http::origin::dynamic::Dynamic;
use fathometer_http::origin::packages::{Making, Packages};
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{Delivery, Instant};

use super::world::{IMAGES, Setting, retrieve, site};

const CARRIERS: [&str; 6] = [
    "h1.0",
    "h1.0-keepalivex4",
    "h1.1",
    "h1.1-pipeline",
    "h2c",
    "h2c-sharded2",
];

/// One of the page's images is produced in parts.
const IMAGE: &str = "/img02.gif";
const PARTS: u32 = 5;
const PART: u32 = 3000;
const EVERY: Duration = Duration::from_secs(2);

fn image() -> Dynamic {
    Dynamic {
        path: IMAGE.to_owned(),
        content_type: Some("image/gif".to_owned()),
        parts: PARTS,
        part: Some(PART),
        first: EVERY,
        every: EVERY,
    }
}

/// Returns the page, produced in parts from its file.
fn page() -> Dynamic {
    Dynamic {
        path: "/index.html".to_owned(),
        content_type: None,
        part: None,
        ..image()
    }
}

fn origin(making: Making, dynamic: Vec<Dynamic>) -> Arc<Origin> {
    let config = OriginConfig {
        wall_clock: Duration::from_secs(900_000_000),
        packages: Packages {
            making,
            ..Packages::default()
        },
        dynamic,
        ..OriginConfig::default()
    };
    Arc::new(Origin::new(Arc::new(site()), config).unwrap())
}

fn first(origin: &Arc<Origin>, policy: &str) -> Retrieval {
    let setting = Setting::new(policy, Visit::First);
    retrieve(origin, setting, ValidatorCache::new()).retrieval
}

/// Returns the time in seconds from the start until a file was usable, and the size of the file in bytes.
fn arrival(retrieval: &Retrieval, target: &str) -> (f64, u64) {
    let start = Instant::from_nanos(1_000_000);
    let files = &retrieval.files;
    let file = files.iter().find(|file| file.target == target).unwrap();
    (file.usable.since(start).as_secs_f64(), file.bytes.0)
}

#[test]
fn every_policy_reads_content_without_a_length() {
    let origin = origin(Making::None, vec![page(), image()]);
    let length = site().files[0].body.len().0;
    for policy in CARRIERS {
        let retrieval = first(&origin, policy);
        assert_eq!(retrieval.failures, [], "{policy}");
        assert_eq!(retrieval.files.len(), IMAGES + 1, "{policy}");
        let all = f64::from(PARTS) * EVERY.as_secs_f64();
        let (usable, bytes) = arrival(&retrieval, "/index.html");
        assert!(bytes == length && usable > all, "{policy}: {usable}");
        let (usable, bytes) = arrival(&retrieval, IMAGE);
        assert_eq!(bytes, u64::from(PARTS * PART), "{policy}");
        assert!(usable > all, "{policy}: {usable}");
    }
}

#[test]
fn a_package_brings_it_behind_what_need_not_wait_for_it() {
    let origin = origin(Making::OnTheFly, vec![image()]);
    for carrier in CARRIERS {
        let policy = format!("{carrier}-package");
        let retrieval = first(&origin, &policy);
        assert_eq!(retrieval.failures, [], "{policy}");
        assert_eq!(retrieval.exchanges.len(), 1, "{policy}");
        let files = IMAGES as u64 + 1;
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Whole { files }));
        let bundled = |by| by == Delivery::Bundled;
        assert!(retrieval.files.iter().all(|file| bundled(file.by)));
        for file in &retrieval.files {
            let (usable, bytes) = arrival(&retrieval, &file.target);
            if file.target == IMAGE {
                assert_eq!(bytes, u64::from(PARTS * PART), "{policy}");
                let all = f64::from(PARTS) * EVERY.as_secs_f64();
                assert!((all..all + 1.0).contains(&usable), "{policy}: {usable}");
            } else {
                assert!(usable < EVERY.as_secs_f64(), "{policy}: {usable}");
            }
        }
        let last = retrieval.files.last().unwrap();
        assert_eq!(last.target, IMAGE, "{policy}");
    }
}

#[test]
fn a_page_that_is_made_begins_its_package() {
    let origin = origin(Making::OnTheFly, vec![page()]);
    for policy in ["h1.0-package", "h1.1-package", "h2c-package"] {
        let retrieval = first(&origin, policy);
        assert_eq!(retrieval.failures, [], "{policy}");
        assert_eq!(retrieval.exchanges.len(), 1, "{policy}");
        assert_eq!(retrieval.files[0].target, "/index.html", "{policy}");
        assert_eq!(
            retrieval.files[0].bytes.0,
            site().files[0].body.len().0,
            "{policy}"
        );
    }
}

#[test]
fn what_needs_sizes_leaves_it_out_and_the_client_asks_for_it() {
    for (making, bundle) in [
        (Making::Made, "package"),
        (Making::OnTheFly, "package-v1"),
        (Making::OnTheFly, "tar"),
        (Making::OnTheFly, "zip"),
    ] {
        let one = origin(making, vec![image()]);
        let policy = format!("h1.1-{bundle}");
        let retrieval = first(&one, &policy);
        assert_eq!(retrieval.failures, [], "{policy}");
        let files = IMAGES as u64;
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Whole { files }));
        assert_eq!(retrieval.exchanges.len(), 2, "{policy}");
        assert_eq!(arrival(&retrieval, IMAGE).1, u64::from(PARTS * PART));
        // A page that has no static file cannot be packed.
        let none = origin(making, vec![page()]);
        let retrieval = first(&none, &policy);
        assert_eq!(retrieval.failures, [], "{policy}");
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Refused), "{policy}");
    }
}
