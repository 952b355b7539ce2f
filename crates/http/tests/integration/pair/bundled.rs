//! Packages and archives from the origin, with several policies: first the whole page in one response, and later
//! only the files that changed.

use std::sync::Arc;

use fathometer_http::driver::{BundleAnswer, Options, PageList, Retrieval, ValidatorCache, Visit};
use fathometer_http::origin::packages::{Making, Packages};
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_model::{Delivery, File, FileId, Site};

use super::world::{IMAGES, Outcome, Setting, retrieve, site};

const BUNDLES: [&str; 6] = [
    "package",
    "package-v1",
    "package-delta",
    "tar",
    "tar-whole",
    "zip",
];

/// The policies for the connections that carry bundles and single files.
const CARRIERS: [&str; 6] = [
    "h1.0",
    "h1.0-keepalivex4",
    "h1.1",
    "h1.1x2-pipeline",
    "h2c",
    "h2c-sharded2",
];

fn packing(site: Site, making: Making) -> Arc<Origin> {
    let config = OriginConfig {
        wall_clock: std::time::Duration::from_secs(900_000_000),
        packages: Packages {
            making,
            ..Packages::default()
        },
        ..OriginConfig::default()
    };
    let origin = Origin::new(Arc::new(site), config).unwrap();
    origin.prepare(fathometer_model::Instant::ZERO);
    Arc::new(origin)
}

fn visit(origin: &Arc<Origin>, policy: &str, visit: Visit, cache: ValidatorCache) -> Outcome {
    retrieve(origin, Setting::new(policy, visit), cache)
}

fn count(retrieval: &Retrieval, by: Delivery) -> usize {
    let files = retrieval.files.iter();
    files.filter(|file| file.by == by).count()
}

/// Returns the site with other content in some of its images.
fn changed(places: &[usize]) -> Site {
    let mut site = site();
    for &place in places {
        let file: &mut File = &mut site.files[place];
        let mut bytes = file.body.bytes().into_owned();
        *bytes.last_mut().unwrap() ^= 1;
        file.body = bytes.into();
        file.last_modified += 60;
    }
    site
}

#[test]
fn the_page_comes_in_one_response() {
    for making in [Making::Made, Making::OnTheFly] {
        let origin = packing(site(), making);
        let total: u64 = site().files.iter().map(|file| file.body.len().0).sum();
        for bundle in BUNDLES {
            for carrier in CARRIERS {
                let policy = format!("{carrier}-{bundle}");
                let outcome = visit(&origin, &policy, Visit::First, ValidatorCache::new());
                let retrieval = &outcome.retrieval;
                assert_eq!(retrieval.failures, [], "{policy}");
                assert_eq!(retrieval.exchanges.len(), 1, "{policy}");
                let files = IMAGES as u64 + 1;
                let whole = BundleAnswer::Whole { files };
                assert_eq!(retrieval.bundle, Some(whole), "{policy}");
                assert_eq!(count(retrieval, Delivery::Bundled), IMAGES + 1, "{policy}");
                let bytes: u64 = retrieval.files.iter().map(|file| file.bytes.0).sum();
                assert_eq!(bytes, total, "{policy}");
                assert_eq!(retrieval.counters.bundled_unused, 0, "{policy}");
                let milestones = retrieval.milestones;
                assert!(milestones.sizes_known.is_some() && milestones.page_complete.is_some());
                assert_eq!(retrieval.cache.len(), IMAGES + 1);
                let waits = bundle == "zip" || bundle == "tar-whole";
                let [first, .., last] = &retrieval.files[..] else {
                    panic!("{policy}");
                };
                assert_eq!(first.target, "/index.html");
                assert_eq!(first.usable == last.usable, waits, "{policy}");
            }
        }
    }
}

#[test]
fn chunks_of_any_size_give_the_same_page() {
    let origin = packing(site(), Making::OnTheFly);
    for policy in ["h1.1-package", "h1.0-package-v1", "h2c-tar", "h2c-zip"] {
        let mut first: Option<Retrieval> = None;
        for segment in [1, 13, 536, 1460, 65_536] {
            let mut setting = Setting::new(policy, Visit::First);
            setting.network.segment = segment;
            setting.network.distance = std::time::Duration::from_nanos(segment as u64 * 800);
            let retrieval = retrieve(&origin, setting, ValidatorCache::new()).retrieval;
            let first = first.get_or_insert_with(|| retrieval.clone());
            assert_eq!(retrieval.cache, first.cache, "{policy} {segment}");
            assert_eq!(retrieval.counters, first.counters, "{policy} {segment}");
            let targets = |retrieval: &Retrieval| -> Vec<String> {
                let files = retrieval.files.iter();
                files.map(|file| file.target.clone()).collect()
            };
            assert_eq!(targets(&retrieval), targets(first), "{policy} {segment}");
        }
    }
}

#[test]
fn a_revisit_transfers_only_changed_files() {
    let origin = packing(site(), Making::OnTheFly);
    for carrier in CARRIERS {
        for bundle in ["package", "package-v1", "tar"] {
            let policy = format!("{carrier}-{bundle}");
            let first = visit(&origin, &policy, Visit::First, ValidatorCache::new());
            let again = visit(&origin, &policy, Visit::Revalidate, first.retrieval.cache);
            let retrieval = &again.retrieval;
            assert_eq!(retrieval.bundle, Some(BundleAnswer::Current), "{policy}");
            assert_eq!(retrieval.exchanges[0].status, Some(304), "{policy}");
            assert_eq!(count(retrieval, Delivery::Current), IMAGES + 1, "{policy}");
        }
        let later = packing(changed(&[3, 30]), Making::OnTheFly);
        let policy = format!("{carrier}-package-delta");
        let first = visit(&origin, &policy, Visit::First, ValidatorCache::new());
        let all = &first.retrieval;
        let again = visit(&later, &policy, Visit::Revalidate, all.cache.clone());
        let delta = &again.retrieval;
        assert_eq!(
            delta.bundle,
            Some(BundleAnswer::Whole { files: 2 }),
            "{policy}"
        );
        assert_eq!(delta.exchanges.len(), 1, "{policy}");
        let brought = delta.files.iter();
        let brought = brought.filter(|file| file.by == Delivery::Bundled);
        let brought: Vec<&str> = brought.map(|file| file.target.as_str()).collect();
        assert_eq!(brought, ["/img02.gif", "/img29.gif"], "{policy}");
        assert_eq!(count(delta, Delivery::Current), IMAGES - 1, "{policy}");
        let bytes = delta.exchanges[0].response_body.0;
        assert!(
            bytes * 10 < all.exchanges[0].response_body.0,
            "{policy}: {bytes}"
        );
        // Visits again, with the files that the delta delivered.
        let third = visit(&later, &policy, Visit::Revalidate, delta.cache.clone());
        assert_eq!(
            count(&third.retrieval, Delivery::Current),
            IMAGES + 1,
            "{policy}"
        );

        let policy = format!("{carrier}-package");
        let first = visit(&origin, &policy, Visit::First, ValidatorCache::new());
        let again = visit(&later, &policy, Visit::Revalidate, first.retrieval.cache);
        assert_eq!(
            count(&again.retrieval, Delivery::Bundled),
            IMAGES + 1,
            "{policy}"
        );
    }
}

#[test]
fn an_origin_without_packages_serves_the_page() {
    let origin = super::world::origin(site());
    for bundle in BUNDLES {
        for carrier in CARRIERS {
            let policy = format!("{carrier}-{bundle}");
            let outcome = visit(&origin, &policy, Visit::First, ValidatorCache::new());
            let retrieval = outcome.retrieval;
            assert_eq!(retrieval.failures, [], "{policy}");
            assert_eq!(retrieval.bundle, Some(BundleAnswer::Refused), "{policy}");
            assert_eq!(count(&retrieval, Delivery::Singly), IMAGES + 1, "{policy}");
            let again = visit(&origin, &policy, Visit::Revalidate, retrieval.cache);
            let retrieval = again.retrieval;
            assert_eq!(count(&retrieval, Delivery::Current), IMAGES + 1, "{policy}");
            let statuses = retrieval.exchanges.iter().map(|exchange| exchange.status);
            assert!(
                statuses.into_iter().all(|status| status == Some(304)),
                "{policy}"
            );
        }
    }
}

/// Creates a site with a folder of files that no page names, and the list of these files.
fn folder() -> (Site, PageList) {
    let mut site = site();
    let mut files = Vec::new();
    for n in 0..20 {
        let mut file = site.files[1 + n].clone();
        file.path = format!("/set/{n}.bin");
        file.content_type = "application/octet-stream".into();
        files.push(file.path.clone());
        site.files.push(file);
    }
    let folder = "/set/".to_owned();
    (site, PageList { folder, files })
}

#[test]
fn lists_complete_by_every_policy() {
    let (site, list) = folder();
    let sizes: u64 = (1..=20).map(|n| site.file(FileId(n)).body.len().0).sum();
    let origin = packing(site, Making::OnTheFly);
    let list = Arc::new(list);
    let plain = CARRIERS.map(str::to_owned).to_vec();
    let bundled = BUNDLES
        .iter()
        .flat_map(|bundle| CARRIERS.map(|carrier| format!("{carrier}-{bundle}")));
    for policy in plain.into_iter().chain(bundled) {
        let setting = |visit| Setting {
            options: Options {
                list: Some(Arc::clone(&list)),
                ..Options::default()
            },
            ..Setting::new(&policy, visit)
        };
        let first = retrieve(&origin, setting(Visit::First), ValidatorCache::new());
        let retrieval = first.retrieval;
        assert_eq!(retrieval.failures, [], "{policy}");
        assert_eq!(retrieval.files.len(), 20, "{policy}");
        let bytes: u64 = retrieval.files.iter().map(|file| file.bytes.0).sum();
        assert_eq!(bytes, sizes, "{policy}");
        let asked = match retrieval.bundle {
            None => 20,
            Some(_) => 1,
        };
        assert_eq!(retrieval.exchanges.len(), asked, "{policy}");
        let again = retrieve(&origin, setting(Visit::Revalidate), retrieval.cache);
        assert_eq!(again.retrieval.failures, [], "{policy}");
        assert_eq!(count(&again.retrieval, Delivery::Current), 20, "{policy}");
    }
}

#[test]
fn a_broken_bundle_is_not_read_to_its_end() {
    let (mut site, list) = folder();
    let list = Arc::new(list);
    // The folder's response is labelled as a package, but is not one.
    site.files.push(File {
        path: list.folder.clone(),
        content_type: "application/vnd.fathometer.object-package;version=2".into(),
        body: vec![b'x'; 3_000_000].into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    });
    let origin = super::world::origin(site);
    for (policy, connections) in [
        ("h1.1-package", 2),
        ("h2c-package", 1),
        ("h1.0-package", 21),
    ] {
        let setting = Setting {
            options: Options {
                list: Some(Arc::clone(&list)),
                ..Options::default()
            },
            ..Setting::new(policy, Visit::First)
        };
        let retrieval = retrieve(&origin, setting, ValidatorCache::new()).retrieval;
        assert_eq!(retrieval.failures, [], "{policy}");
        assert!(
            matches!(retrieval.bundle, Some(BundleAnswer::Broken { .. })),
            "{policy}: {:?}",
            retrieval.bundle
        );
        assert_eq!(count(&retrieval, Delivery::Singly), 20, "{policy}");
        let read = retrieval.exchanges[0].response_body.0;
        assert!(read < 200_000, "{policy}: {read}");
        assert_eq!(retrieval.connections.len(), connections, "{policy}");
    }
}
