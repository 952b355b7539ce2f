//! httperf's session files (`--wsesslog`).
//!
//! ```text
//! # a session of two bursts
//! /index.html think=2.5
//!     /logo.gif
//!     /style.css
//! /search method=POST contents="q=echo"
//!
//! /index.html
//! ```
//!
//! A blank line ends a session. A line without indentation starts a burst; the indented lines after it are requested
//! when the response to this line has arrived. A burst becomes a page, a session becomes a script. `think=` is the
//! pause in seconds after the burst; if a burst has several values, the last one applies. There is no pause after a
//! session's last burst, as in httperf.
//!
//! Contents are parsed as in httperf's wsesslog module: in single or double quotes, or unquoted up to the next space.
//! The escape `\n` is a line feed. A backslash before any other character represents that character. A backslash at the
//! end of a line continues the contents on the next line.

use std::sync::Arc;
use std::time::Duration;

use crate::builder::Builder;
use crate::fault::{Fault, found};
use crate::plan::{Choice, MOST_MEMBERS, Script, TargetId};
use crate::synthetic::type_of;
use crate::target::{is_origin_form, is_token};
use crate::workload::Workload;

/// The longest accepted pause, in seconds: one year.
const LONGEST_THINK: f64 = 365.0 * 86_400.0;

/// Parses a session file into a workload. `think` is the pause after each burst that sets no pause.
pub fn parse(name: &str, text: &str, think: Duration) -> Result<Workload, Fault> {
    let mut reader = Reader {
        builder: Builder::default(),
        default_think: think,
        burst: None,
        steps: Vec::new(),
        scripts: Vec::new(),
    };
    let mut lines = text.lines().enumerate();
    while let Some((line, content)) = lines.next() {
        if !is_continued(content) {
            reader.line(line, content)?;
            continue;
        }
        // Errors in a continued line are reported with the position of the first line.
        let mut whole = content.to_owned();
        for (_, more) in lines.by_ref() {
            whole.push('\n');
            whole.push_str(more);
            if !is_continued(more) {
                break;
            }
        }
        reader.line(line, &whole)?;
    }
    reader.end_session();
    if reader.scripts.is_empty() {
        return Err(Fault::whole(
            "the file has no session: expected at least one request",
        ));
    }
    let choice = Choice::Scripts(reader.scripts.into());
    Ok(reader.builder.finish(name, choice, None))
}

struct Reader {
    builder: Builder,
    default_think: Duration,
    burst: Option<Burst>,
    steps: Vec<(crate::plan::PageId, Duration)>,
    scripts: Vec<Script>,
}

struct Burst {
    members: Vec<TargetId>,
    think: Option<Duration>,
}

impl Reader {
    fn line(&mut self, line: usize, content: &str) -> Result<(), Fault> {
        if content.trim().is_empty() {
            self.end_session();
            return Ok(());
        }
        let fault = |(offset, message): Error| Fault::in_line(line, content, offset, message);
        let Some(request) = request(content).map_err(fault)? else {
            return Ok(());
        };
        let indented = content.starts_with(char::is_whitespace);
        let target = self
            .builder
            .target(request.method, request.path, request.content);
        if matches!(request.method, "GET" | "HEAD") {
            self.builder
                .add_file(request.path, type_of(request.path), None);
        }
        if !indented {
            self.end_burst();
            self.burst = Some(Burst {
                members: vec![target],
                think: request.think,
            });
            return Ok(());
        }
        let Some(burst) = &mut self.burst else {
            let offset = content.len() - content.trim_start().len();
            let message =
                "expected an unindented line, which starts a burst, before an indented line";
            return Err(fault((offset, message.to_owned())));
        };
        if burst.members.len() == MOST_MEMBERS {
            let message = format!("expected at most {MOST_MEMBERS} requests in a burst");
            return Err(fault((0, message)));
        }
        burst.members.push(target);
        burst.think = request.think.or(burst.think);
        Ok(())
    }

    fn end_burst(&mut self) {
        if let Some(burst) = self.burst.take() {
            let page = self.builder.pages.push(&burst.members);
            let think = burst.think.unwrap_or(self.default_think);
            self.steps.push((page, think));
        }
    }

    fn end_session(&mut self) {
        self.end_burst();
        if let Some((_, think)) = self.steps.last_mut() {
            *think = Duration::ZERO;
            let steps = std::mem::take(&mut self.steps);
            self.scripts.push(Script { steps });
        }
    }
}

/// The request of a line.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    content: Option<Arc<[u8]>>,
    /// The pause after the burst of the request.
    think: Option<Duration>,
}

/// The byte offset of an error, and the message.
type Error = (usize, String);

/// Parses the request of a line; `None` if the line contains only a comment.
fn request(content: &str) -> Result<Option<Request<'_>>, Error> {
    let mut at = skip_blanks(content, 0);
    if at == content.len() || content[at..].starts_with('#') {
        return Ok(None);
    }
    let end = word_end(content, at);
    let path = &content[at..end];
    if !is_origin_form(path) {
        let message = format!("expected a path that starts with /, found {}", found(path));
        return Err((at, message));
    }
    let mut request = Request {
        method: "GET",
        path,
        content: None,
        think: None,
    };
    at = skip_blanks(content, end);
    while at < content.len() && !content[at..].starts_with('#') {
        let rest = &content[at..];
        let end;
        if let Some(value) = rest.strip_prefix("method=") {
            end = word_end(content, at);
            let method = &value[..end - at - "method=".len()];
            if !is_token(method) {
                let message = format!("expected a method, found {}", found(method));
                return Err((at + "method=".len(), message));
            }
            request.method = method;
        } else if let Some(value) = rest.strip_prefix("think=") {
            end = word_end(content, at);
            let seconds = &value[..end - at - "think=".len()];
            request.think = Some(think(seconds).ok_or_else(|| {
                let message = format!("expected seconds, found {}", found(seconds));
                (at + "think=".len(), message)
            })?);
        } else if rest.starts_with("contents=") {
            let start = at + "contents=".len();
            let (contents, after) = quoted(content, start)?;
            request.content = Some(contents.into());
            end = after;
        } else {
            let word = &content[at..word_end(content, at)];
            let message = format!(
                "expected method=, think= or contents=, found {}",
                found(word)
            );
            return Err((at, message));
        }
        at = skip_blanks(content, end);
    }
    Ok(Some(request))
}

fn skip_blanks(content: &str, from: usize) -> usize {
    content.len() - content[from..].trim_start().len()
}

fn word_end(content: &str, from: usize) -> usize {
    content[from..]
        .find(char::is_whitespace)
        .map_or(content.len(), |length| from + length)
}

fn think(seconds: &str) -> Option<Duration> {
    let value: f64 = seconds.parse().ok()?;
    (0.0..=LONGEST_THINK)
        .contains(&value)
        .then(|| Duration::from_secs_f64(value))
}

/// Returns whether a line ends with a backslash that is not itself escaped.
fn is_continued(content: &str) -> bool {
    let backslashes = content.bytes().rev().take_while(|&byte| byte == b'\\');
    backslashes.count() % 2 == 1
}

/// Parses the contents that start at `start`, in quotes or up to the next space. Returns the contents and the position
/// after them.
fn quoted(content: &str, start: usize) -> Result<(Vec<u8>, usize), Error> {
    let quote = content[start..]
        .chars()
        .next()
        .filter(|letter| matches!(letter, '"' | '\''));
    let from = start + quote.map_or(0, char::len_utf8);
    let mut text = String::new();
    let mut letters = content[from..].char_indices();
    while let Some((offset, letter)) = letters.next() {
        match (letter, quote) {
            (letter, Some(quote)) if letter == quote => {
                return Ok((text.into_bytes(), from + offset + 1));
            }
            (letter, None) if letter.is_whitespace() => {
                return Ok((text.into_bytes(), from + offset));
            }
            ('\\', _) => text.push(match letters.next() {
                Some((_, 'n')) => '\n',
                Some((_, other)) => other,
                None => '\\',
            }),
            (letter, _) => text.push(letter),
        }
    }
    match quote {
        Some(quote) => Err((start, format!("expected a closing {quote} in this line"))),
        None => Ok((text.into_bytes(), content.len())),
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;
    use proptest::prelude::*;

    use super::*;
    use crate::plan::PageId;

    fn fault(text: &str) -> String {
        parse("test", text, Duration::ZERO).unwrap_err().to_string()
    }

    #[test]
    fn sessions_bursts_and_pauses_are_read() {
        let text = "# two sessions\n\
                    /index.html think=2.5\n\
                    # between\n\
                    \t/logo.gif\n    /style.css\n\
                    /search?q=1 method=POST contents='a \"b\" \\'c\\' \\\\x'\n\
                    \n\n\
                    /index.html method=HEAD # what is it\n\
                    /last think=9\n";
        let workload = parse("test", text, Duration::from_secs(1)).unwrap();
        let plan = &workload.plan;
        let Choice::Scripts(scripts) = &plan.choice else {
            panic!("{:?}", plan.choice);
        };
        let pauses = |script: &Script| -> Vec<f64> {
            let steps = script.steps.iter();
            steps.map(|(_, pause)| pause.as_secs_f64()).collect()
        };
        assert_eq!(scripts.len(), 2);
        assert_eq!(pauses(&scripts[0]), [2.5, 0.0]);
        assert_eq!(pauses(&scripts[1]), [1.0, 0.0]);
        let first = plan.pages.get(scripts[0].steps[0].0).members;
        let paths: Vec<&str> = first
            .iter()
            .map(|id| plan.targets[id.0 as usize].path.as_str())
            .collect();
        assert_eq!(paths, ["/index.html", "/logo.gif", "/style.css"]);
        let post = &plan.targets[plan.pages.get(PageId(1)).members[0].0 as usize];
        assert_eq!(post.method, "POST");
        assert_eq!(post.content.as_deref(), Some(&b"a \"b\" 'c' \\x"[..]));
        // The same path with another method is another request for the same file.
        assert_eq!((plan.targets.len(), workload.files.len()), (6, 4));
        let site = workload.site(0.3, Seed(1));
        assert_eq!(site.pages[0].embedded.len(), 2);
    }

    /// Expects the requests and pauses of httperf 0.9.0 for these lines, as captured on loopback.
    #[test]
    fn contents_and_pauses_are_httperfs() {
        let text = r#"
/a method=POST contents="x\ny\tz\\n\"q\" \q"
/b method=POST contents='s\nq "d"'
/c method=POST contents=un\nquoted=1 think=0.2
    /d think=0.7
    /e think=0.1
/f method=POST contents="line one \
line two"
/g method=POST contents='a\'b'
/h contents=un\nq\ b
"#;
        let workload = parse("test", text, Duration::ZERO).unwrap();
        let contents: Vec<&str> = workload
            .plan
            .targets
            .iter()
            .map(|target| {
                std::str::from_utf8(target.content.as_deref().unwrap_or_default()).unwrap()
            })
            .collect();
        assert_eq!(
            contents,
            [
                "x\nytz\\n\"q\" q",
                "s\nq \"d\"",
                "un\nquoted=1",
                "",
                "",
                "line one \nline two",
                "a'b",
                "un\nq b",
            ]
        );
        let Choice::Scripts(scripts) = &workload.plan.choice else {
            panic!("{:?}", workload.plan.choice);
        };
        let third = scripts[0].steps[2].1;
        assert_eq!(third, Duration::from_millis(100));
    }

    #[test]
    fn faults_name_their_place() {
        assert_eq!(
            fault("/a\n  /b mehtod=GET\n"),
            "line 2, column 6: expected method=, think= or contents=, found \"mehtod=GET\""
        );
        assert_eq!(
            fault("  /b\n"),
            "line 1, column 3: expected an unindented line, which starts a burst, before an indented line"
        );
        assert_eq!(
            fault("/a think=soon"),
            "line 1, column 10: expected seconds, found \"soon\""
        );
        assert_eq!(
            fault("/a contents=\"open"),
            "line 1, column 13: expected a closing \" in this line"
        );
        assert_eq!(
            fault("a.html"),
            "line 1, column 1: expected a path that starts with /, found \"a.html\""
        );
        assert_eq!(
            fault("# nothing\n\n"),
            "the file has no session: expected at least one request"
        );
        let largest = format!("/a\n{}", " /b\n".repeat(MOST_MEMBERS - 1));
        assert!(parse("test", &largest, Duration::ZERO).is_ok());
        assert_eq!(
            fault(&format!("{largest} /b\n")),
            "line 65536, column 1: expected at most 65535 requests in a burst"
        );
        for seconds in ["-1", "NaN", "inf", "1e300"] {
            assert!(fault(&format!("/a think={seconds}")).contains("expected seconds"));
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "\\PC{0,100}(\n\\PC{0,40}){0,4}") {
            let _ = parse("test", &text, Duration::ZERO);
        }

        #[test]
        fn words_of_session_files_in_any_order_are_no_trouble(
            words in proptest::collection::vec(
                prop_oneof!["/[a-c?%.]{0,4}", "\n|\n\n|\n ", "think=[0-9.e]{0,5}", "method=[A-Z]{0,4}",
                            "contents=[\"'][a\\\\\"' ]{0,6}[\"']?", "#"],
                0..20,
            ),
        ) {
            if let Ok(workload) = parse("test", &words.join(" "), Duration::ZERO) {
                workload.statistics();
                workload.site(0.3, Seed(1));
            }
        }
    }
}
