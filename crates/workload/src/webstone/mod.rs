//! WebStone file lists: pages, each a set of files, selected by weight.
//!
//! Two forms are accepted, and may be mixed. The first has one page per line, as in WebStone 2.x:
//!
//! ```text
//! # path, weight, size
//! /file500.html 350 #500
//! ```
//!
//! The second has pages of several files, in the style of 1.x: a line with the number of files and the weight, then one
//! line per file. If a line with a single number precedes all pages, it is the number of pages.
//!
//! ```text
//! 2
//! 3 40
//! /index.html #4096
//! /logo.gif #1024
//! /photo.gif #20480
//! 1 10
//! /about.html #2048
//! ```
//!
//! A missing or non-positive weight counts as 1. `#` before a number is a size in bytes; before anything else it starts
//! a comment. This program defines the syntax of pages of several files, because the published descriptions do not.

mod sets;

pub use sets::{almeida_300k, almeida_a, almeida_b, standard};

use crate::builder::Builder;
use crate::fault::{Fault, found, words};
use crate::plan::{Choice, MOST_MEMBERS, TargetId, Weights};
use crate::synthetic::type_of;
use crate::target::is_origin_form;
use crate::workload::Workload;

/// Parses a file list into a workload. A user requests pages without pauses.
pub fn parse(name: &str, text: &str) -> Result<Workload, Fault> {
    let mut list = List::default();
    for (line, content) in text.lines().enumerate() {
        list.line(line, content)?;
    }
    list.finish(name, text.lines().count())
}

#[derive(Default)]
struct List {
    builder: Builder,
    weights: Vec<u64>,
    /// The number of pages that the list declares, and the line with this declaration.
    stated: Option<(usize, u64)>,
    /// The page whose files are being read.
    open: Option<OpenPage>,
}

/// A page of several files that is not yet read completely.
struct OpenPage {
    line: usize,
    files: u64,
    weight: u64,
    members: Vec<TargetId>,
}

impl List {
    fn line(&mut self, line: usize, content: &str) -> Result<(), Fault> {
        let fault = |offset, message: String| Fault::in_line(line, content, offset, message);
        let (fields, size) = fields(content).map_err(|(offset, message)| fault(offset, message))?;
        let Some(&(offset, first)) = fields.first() else {
            return match size {
                Some(_) => Err(fault(0, "expected a path before a size".to_owned())),
                None => Ok(()),
            };
        };
        if first.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = || {
                first.parse::<u64>().map_err(|_| {
                    fault(
                        offset,
                        format!("expected a smaller number, found {}", found(first)),
                    )
                })
            };
            if let Some(&(offset, _)) = fields.get(2) {
                return Err(fault(offset, "expected the end of the line".to_owned()));
            }
            if self.open.is_some() {
                let message = format!("expected the path of a file, found {}", found(first));
                return Err(fault(offset, message));
            }
            let Some(&(at, weight)) = fields.get(1) else {
                if self.stated.is_some() || !self.weights.is_empty() {
                    let message = "expected the number of files and the weight of a page";
                    return Err(fault(offset, message.to_owned()));
                }
                self.stated = Some((line, number()?));
                return Ok(());
            };
            let files = match number()? {
                0 => {
                    return Err(fault(
                        offset,
                        "expected at least one file in a page".to_owned(),
                    ));
                }
                files if files > MOST_MEMBERS as u64 => {
                    let message =
                        format!("expected at most {MOST_MEMBERS} files in a page, found {files}");
                    return Err(fault(offset, message));
                }
                files => files,
            };
            self.open = Some(OpenPage {
                line,
                files,
                weight: parse_weight(weight).map_err(|message| fault(at, message))?,
                members: Vec::new(),
            });
            return Ok(());
        }

        let path = path_of(first).ok_or_else(|| {
            let message = "expected a path that starts with / or an http URL";
            fault(offset, format!("{message}, found {}", found(first)))
        })?;
        let last = if self.open.is_some() { 1 } else { 2 };
        if let Some(&(offset, extra)) = fields.get(last) {
            let message = format!(
                "expected #bytes or the end of the line, found {}",
                found(extra)
            );
            return Err(fault(offset, message));
        }
        self.builder.add_file(path, type_of(path), size);
        let target = self.builder.target("GET", path, None);
        match &mut self.open {
            Some(page) => {
                page.members.push(target);
                if page.members.len() as u64 == page.files {
                    self.builder.pages.push(&page.members);
                    self.weights.push(page.weight);
                    self.open = None;
                }
            }
            None => {
                let weight = match fields.get(1) {
                    Some(&(at, weight)) => {
                        parse_weight(weight).map_err(|message| fault(at, message))?
                    }
                    None => 1,
                };
                self.builder.pages.push(&[target]);
                self.weights.push(weight);
            }
        }
        Ok(())
    }

    fn finish(self, name: &str, lines: usize) -> Result<Workload, Fault> {
        if let Some(page) = self.open {
            let missing = page.files - page.members.len() as u64;
            let message = format!(
                "expected {missing} more files of the page of line {}, found the end",
                page.line + 1
            );
            return Err(Fault::in_line(lines, "", 0, message));
        }
        if let Some((line, stated)) = self.stated
            && stated != self.weights.len() as u64
        {
            let message = format!(
                "expected {stated} pages, as stated here, found {}",
                self.weights.len()
            );
            return Err(Fault::in_line(line, "", 0, message));
        }
        let weights = Weights::new(self.weights)
            .ok_or_else(|| Fault::whole("the list has no page: expected at least one"))?;
        Ok(self.builder.finish(name, Choice::Weighted(weights), None))
    }
}

/// The words of a line before its size or comment, each with its byte offset, and the size.
type Fields<'a> = (Vec<(usize, &'a str)>, Option<u64>);

fn fields(content: &str) -> Result<Fields<'_>, (usize, String)> {
    let mut fields = Vec::new();
    for (offset, word) in words(content) {
        let Some(size) = word.strip_prefix('#') else {
            fields.push((offset, word));
            continue;
        };
        // A comment line may start with a number, like any other comment.
        if fields.is_empty() || !size.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok((fields, None));
        }
        return match size.parse() {
            // A size above one petabyte is treated as a typing error.
            Ok(bytes @ 0..=1_000_000_000_000_000) => Ok((fields, Some(bytes))),
            _ => Err((
                offset + 1,
                format!("expected a size in bytes, found {}", found(size)),
            )),
        };
    }
    Ok((fields, None))
}

/// Parses a weight; non-positive weights count as 1.
fn parse_weight(text: &str) -> Result<u64, String> {
    match text.parse::<i32>() {
        Ok(weight) => Ok(u64::try_from(weight).unwrap_or(0).max(1)),
        Err(_) => Err(format!(
            "expected a weight, a whole number, found {}",
            found(text)
        )),
    }
}

/// Returns the path in a path or a URL.
fn path_of(text: &str) -> Option<&str> {
    let path = match text.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => text,
    };
    is_origin_form(path).then_some(path)
}

#[cfg(test)]
mod tests;
