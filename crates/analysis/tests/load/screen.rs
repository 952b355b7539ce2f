//! The closing screen and WebStone's report.

use fathometer_analysis::load::{Slo, Summary, screen, webstone};

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
fn an_invalid_result_hides_nothing() {
    let result = sample::broken();
    insta::assert_snapshot!(screen::render(&result, &slo().judge(&result)));
}

#[test]
fn nothing_measured_is_no_figure() {
    let result = sample::nothing();
    insta::assert_snapshot!(screen::render(&result, &slo().judge(&result)));
}

#[test]
fn a_server_that_never_answers_shows_time_outs() {
    let result = sample::silent();
    insta::assert_snapshot!(screen::render(&result, &slo().judge(&result)));
}

#[test]
fn webstones_names() {
    insta::assert_snapshot!(webstone::render(&sample::broken()));
}

#[test]
fn no_line_is_longer_than_a_hundred_columns() {
    for (name, result) in sample::all() {
        let promises = slo().judge(&result);
        for text in [
            screen::render(&result, &promises),
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
fn a_server_that_was_watched_has_a_part_of_its_own() {
    let result = sample::watched();
    let text = screen::render(&result, &[]);
    let begin = text.find("\nserver ").unwrap();
    let end = begin + text[begin..].find("\nby default").unwrap();
    // 8 s of processor time for 10 000 exchanges.
    let words: Vec<&str> = text.split_whitespace().collect();
    let flowing = words.join(" ");
    assert!(flowing.contains("CPU 800 µs an exchange (300 µs user, 500 µs system)"));
    assert!(flowing.contains("PSS not available"));
    insta::assert_snapshot!(&text[begin..end]);
    let suspected = &Summary::of(&result).suspected;
    assert_eq!(suspected[0].resource, "cpu", "{suspected:?}");
    assert!(Summary::of(&sample::stalled()).suspected.is_empty());
}
