use proptest::prelude::*;

use super::*;
use crate::plan::{Choice, PageId};

fn fault(text: &str) -> String {
    parse("test", text).unwrap_err().to_string()
}

fn share(workload: &Workload, is_meant: impl Fn(u64) -> bool) -> f64 {
    let Choice::Weighted(weights) = &workload.plan.choice else {
        panic!("pages of a list are chosen by weight");
    };
    (0..workload.plan.pages.len() as u32)
        .map(PageId)
        .filter(|&page| {
            let [target] = workload.plan.pages.get(page).members else {
                panic!("one file a page");
            };
            is_meant(workload.plan.targets[target.0 as usize].size.unwrap().0)
        })
        .map(|page| weights.probability(page))
        .sum()
}

#[test]
fn the_standard_set_weighs_what_it_should() {
    let workload = standard();
    let statistics = workload.statistics();
    assert_eq!((statistics.files, statistics.pages), (5, 5));
    // The expected value is (350·500 + 500·5125 + 140·51250 + 9·512500 + 5248000) / 1000.
    assert_eq!(statistics.mean_request, Some(19_773.0));
    assert!((share(&workload, |size| size == 5125) - 0.5).abs() < 1e-12);
}

/// Checks the figures in table I of the paper.
#[test]
fn almeida_a_is_as_printed() {
    let workload = almeida_a();
    let statistics = workload.statistics();
    assert_eq!(statistics.files, 18);
    assert_eq!(statistics.total.0, 298 * 1024);
    assert!((share(&workload, |size| size < 50 * 1024) - 0.94).abs() < 1e-12);
}

/// Checks the figures in table I of the paper.
#[test]
fn almeida_b_is_as_printed() {
    let workload = almeida_b();
    let statistics = workload.statistics();
    assert_eq!(statistics.files, 180);
    assert_eq!(statistics.total.0, 5 << 20);
    assert_eq!(statistics.max.0, 200 * 1024);
    let smallest = workload.files.iter().map(|file| file.size).min();
    assert_eq!(smallest, Some(1024));
    let mean = statistics.mean_request.unwrap();
    assert!((mean / 1024.0 - 28.44).abs() < 0.01, "{mean}");
}

/// Section 5.5 of the paper states an average file size of 300 Kbytes.
#[test]
fn almeida_300k_has_the_mean_of_the_paper() {
    let statistics = almeida_300k().statistics();
    assert_eq!(statistics.files, 180);
    assert!((statistics.mean / 1024.0 - 300.0).abs() < 0.01);
}

#[test]
fn both_forms_are_read_with_comments_and_weights() {
    let text = "# a list\n\n/a.html\n/b.html -3 #77 and a remark\n\
                http://host:80/c.html 5 # no size\n\
                2 40\n  /d.html #10\n  /e.gif #20\n";
    let workload = parse("test", text).unwrap();
    let plan = &workload.plan;
    assert_eq!(plan.pages.len(), 4);
    let Choice::Weighted(weights) = &plan.choice else {
        panic!()
    };
    let shares = [1.0, 1.0, 5.0, 40.0].map(|weight| weight / 47.0);
    for (page, share) in shares.into_iter().enumerate() {
        assert!((weights.probability(PageId(page as u32)) - share).abs() < 1e-12);
    }
    let last = plan.pages.get(PageId(3)).members;
    let paths: Vec<&str> = last
        .iter()
        .map(|id| plan.targets[id.0 as usize].path.as_str())
        .collect();
    assert_eq!(paths, ["/d.html", "/e.gif"]);
    assert_eq!(workload.files[2].path, "/c.html");
    assert_eq!(workload.files[1].size, 77);
    assert_eq!(workload.notes.len(), 1);
    assert!(workload.notes[0].starts_with("the sizes of 2 files"));
    let site = workload.site(0.3, fathometer_model::Seed(1));
    assert_eq!(site.pages[3].embedded.len(), 1);
}

#[test]
fn faults_name_their_place() {
    assert_eq!(
        fault("/a 1 #5\n/b many #5\n"),
        "line 2, column 4: expected a weight, a whole number, found \"many\""
    );
    assert_eq!(
        fault("a.html 1\n"),
        "line 1, column 1: expected a path that starts with / or an http URL, found \"a.html\""
    );
    assert_eq!(
        fault("/a 1 #5x\n"),
        "line 1, column 7: expected a size in bytes, found \"5x\""
    );
    assert_eq!(
        fault("/a 1 2\n"),
        "line 1, column 6: expected #bytes or the end of the line, found \"2\""
    );
    assert_eq!(
        fault("3 1\n/a\n"),
        "line 3, column 1: expected 2 more files of the page of line 1, found the end"
    );
    assert_eq!(
        fault("3\n/a\n"),
        "line 1, column 1: expected 3 pages, as stated here, found 1"
    );
    assert_eq!(
        fault("65536 1\n/a\n"),
        "line 1, column 1: expected at most 65535 files in a page, found 65536"
    );
    assert_eq!(
        fault("# nothing\n"),
        "the list has no page: expected at least one"
    );
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[ -~\\n/#0-9ä]{0,200}") {
        let _ = parse("test", &text);
    }

    #[test]
    fn lines_of_lists_are_accepted_in_any_order(
        lines in proptest::collection::vec(
            prop_oneof!["/[a-c]{1,3}( [0-9]{1,12})?( #[0-9]{1,20})?", "[0-9]{1,3}( [0-9]{1,3})?", "#.*"],
            0..12,
        ),
    ) {
        if let Ok(workload) = parse("test", &lines.join("\n")) {
            prop_assert!(!workload.plan.pages.is_empty());
            workload.statistics();
        }
    }
}
