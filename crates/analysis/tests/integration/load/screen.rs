//! The final screen and WebStone's report.

use fathometer_analysis::load::{Slo, Summary, bound, findings, screen, webstone};

use super::sample;

fn slo() -> Slo {
    "p98<100ms,uncorrected.p98<100ms,errors<0.1%,rate>=1000/s"
        .parse()
        .unwrap()
}

#[test]
fn a_stall_is_seen_in_the_corrected_row() {
    let result = sample::stalled();
    insta::assert_snapshot!(screen::render(&result, &slo().judge(&result)));
}

#[test]
fn the_answer_comes_first_in_four_lines() {
    for (name, result) in sample::all() {
        let text = screen::render(&result, &[]);
        let heads: Vec<&str> = text
            .lines()
            .take(4)
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        let last = match result.validity.is_valid() {
            true => "valid",
            false => "INVALID",
        };
        assert_eq!(heads, ["rate", "latency", "errors", last], "{name}: {text}");
        let details = screen::details(&result, &[]);
        assert!(details.starts_with(&text[..text.find("\n\n").unwrap()]));
        assert!(details.lines().count() > text.lines().count() + 10);
    }
}

#[test]
fn the_bound_that_was_hit_is_named() {
    // The server kept up with the offered rate on average: a stall only delayed requests.
    let mut open = sample::stalled();
    assert!(
        bound::of(&open).starts_with("the offered rate"),
        "{}",
        bound::of(&open)
    );
    open.measured.ended.completed /= 2;
    let behind = bound::of(&open);
    assert!(
        behind.starts_with("the server: it completed 50.0 % of"),
        "{behind}"
    );
    // 251 pages were in flight on average, for 1 200 users.
    let paused = bound::of(&sample::broken());
    assert!(
        paused.starts_with("the users: 251 of 1 200 wait"),
        "{paused}"
    );
    assert!(bound::of(&sample::silent()).contains("completed no exchange"));
    let watched = bound::of(&sample::watched());
    assert!(watched.contains("suspected: "), "{watched}");
}

#[test]
fn an_invalid_result_shows_all_its_figures() {
    let result = sample::broken();
    insta::assert_snapshot!(screen::details(&result, &slo().judge(&result)));
}

#[test]
fn a_screen_without_measurements_has_no_figures() {
    let result = sample::nothing();
    insta::assert_snapshot!(screen::details(&result, &slo().judge(&result)));
}

#[test]
fn a_server_that_never_answers_shows_time_outs() {
    let result = sample::silent();
    insta::assert_snapshot!(screen::details(&result, &slo().judge(&result)));
}

#[test]
fn tls_and_http2_have_lines_of_their_own() {
    let text = screen::details(&sample::multiplexed(), &[]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let flowing = words.join(" ");
    for words in [
        "64 handshakes (48 full, 16 resumed, 12 with early data, 4 with early data refused)",
        "TLS 1.3, AES-128-GCM, X25519, h2; 500 B sent, 975 B received and 250 µs of CPU each",
        // 1 - 190/800 and 1 - 460/1840.
        "headers 76.2 % and 75.0 % smaller by compression",
        "at most 16 streams at a time on a connection, 100 allowed",
        "10 528 frames sent, 20 128 received",
    ] {
        assert!(flowing.contains(words), "{words}: {text}");
    }
    insta::assert_snapshot!(text);
    let plain = screen::details(&sample::stalled(), &[]);
    assert!(!plain.contains("TLS") && !plain.contains("HTTP/2"));
    let added = text.lines().count() - plain.lines().count();
    assert!(added <= 8, "{added} lines more");
}

#[test]
fn every_screen_warns_if_all_responses_are_errors() {
    let with = |statuses: &[(u16, u64)], workload: &str| {
        let mut result = sample::stalled();
        result.setup.workload = workload.to_owned();
        let counts = &mut result.measured.counts;
        counts.statuses = statuses.iter().copied().collect();
        counts.completed = counts.statuses.values().sum();
        result
    };
    let page = "/page.html";
    for (statuses, workload, remark) in [
        (
            &[(404, 9)][..],
            page,
            "every response was 404 (Not Found): is the URL right?",
        ),
        (
            &[(404, 9)],
            "surge",
            "every response was 404 (Not Found): does the server have the files of this workload?",
        ),
        (
            &[(418, 7)],
            page,
            "every response was 418: is the request in the form that the server expects?",
        ),
        (
            &[(429, 20_000), (503, 9)],
            page,
            "every response had an error status (429 (Too Many Requests): 20 000, 503 (Service \
             Unavailable): 9): does the server limit the request rate?",
        ),
        (
            &[(200, 49), (500, 51)],
            page,
            "51.0 % of the responses had an error status: median and throughput describe mostly errors",
        ),
        (
            &[(301, 5), (302, 5)],
            page,
            "every response was a redirect, and a load test does not follow them: use the URL that they name",
        ),
    ] {
        let result = with(statuses, workload);
        assert_eq!(findings::of(&result), [remark]);
        assert_eq!(Summary::of(&result).findings, [remark]);
        for text in [screen::render(&result, &[]), webstone::render(&result)] {
            let end = text.split_once("NOTE: ").unwrap().1;
            let end = end.split("\nMore: ").next().unwrap();
            let words: Vec<&str> = end.split_whitespace().collect();
            assert_eq!(words.join(" "), remark);
            assert!(
                text.lines().all(|line| line.chars().count() <= 100),
                "{text}"
            );
        }
        assert!(result.validity.is_valid());
    }
    for statuses in [&[][..], &[(200, 5)], &[(200, 5), (404, 5)], &[(304, 5)]] {
        let result = with(statuses, page);
        assert_eq!(findings::of(&result), Vec::<String>::new());
        assert!(!screen::render(&result, &[]).contains("NOTE"));
    }
}

#[test]
fn the_names_of_webstone_workloads() {
    insta::assert_snapshot!(webstone::render(&sample::broken()));
}

#[test]
fn no_line_is_longer_than_a_hundred_columns() {
    for (name, result) in sample::all() {
        let slos = slo().judge(&result);
        for text in [
            screen::render(&result, &slos),
            screen::details(&result, &slos),
            webstone::render(&result),
        ] {
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
                assert!(
                    !line.contains('\u{1b}') && line == line.trim_end(),
                    "{name}: {line:?}"
                );
                assert!(
                    !line.contains("NaN") && !line.contains("inf"),
                    "{name}: {line}"
                );
            }
        }
    }
}

#[test]
fn a_probed_server_has_a_section_of_its_own() {
    let result = sample::watched();
    let text = screen::render(&result, &[]);
    let begin = text.find("\nserver ").unwrap();
    let end = begin + text[begin..].find("\nMore: ").unwrap();
    // 8 s of CPU time for 10 000 exchanges.
    let words: Vec<&str> = text.split_whitespace().collect();
    let flowing = words.join(" ");
    assert!(flowing.contains("CPU 800 µs an exchange (300 µs user, 500 µs system)"));
    assert!(flowing.contains("PSS not available"));
    insta::assert_snapshot!(&text[begin..end]);
    let suspected = &Summary::of(&result).suspected;
    assert_eq!(suspected[0].resource, "cpu", "{suspected:?}");
    assert!(Summary::of(&sample::stalled()).suspected.is_empty());
}
