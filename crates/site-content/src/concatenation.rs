//! Concatenates consecutive style sheets or scripts of documents.

use std::collections::BTreeMap;

use fathometer_content::{
    Run, RunKind, StyleSheet, Unchanged, join_runs, join_scripts, join_style_sheets, runs,
};

/// The maximum number of runs that are joined, which limits the memory.
const MOST_RUNS: usize = 10_000;

/// A run to join: its kind, and the places of its files in order.
pub type Files = (RunKind, Vec<String>);

/// The concatenations of a site. A place is a path, with slashes, that identifies a file of the site.
#[derive(Debug, Default)]
pub struct Concatenations {
    /// The runs, each with the name of the joined file, or `None` if there is none.
    found: BTreeMap<Files, Option<String>>,
}

/// A joined file. It is written only with the feature `images`, because `--write` needs this feature.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "images"),
    expect(dead_code, reason = "only its number counts")
)]
pub struct JoinedFile {
    /// The place of the file.
    pub place: String,
    /// The content of the file.
    pub content: Vec<u8>,
}

impl Concatenations {
    /// Records the runs of a document. `place_of` returns the place of a URL in the document.
    pub fn note(
        &mut self,
        html: &[u8],
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Unchanged> {
        for run in runs(html)? {
            if let Some(files) = files_of(&run, &place_of)
                && self.found.len() < MOST_RUNS
            {
                self.found.entry(files).or_insert(None);
            }
        }
        Ok(())
    }

    /// Joins the files. `is_free` returns whether a name is unused. The content of a file is `None` if the file is not
    /// part of the site. Returns the joined files, and the reasons why other runs cannot be joined.
    pub fn make(
        &mut self,
        content_of: impl Fn(&str) -> Option<Vec<u8>>,
        is_free: impl Fn(&str) -> bool,
    ) -> (Vec<JoinedFile>, Vec<String>) {
        let (mut made, mut left) = (Vec::new(), Vec::new());
        let mut number = 0;
        for ((kind, places), name) in &mut self.found {
            let contents: Option<Vec<_>> = places.iter().map(|place| content_of(place)).collect();
            let Some(contents) = contents else { continue };
            let content = match joined(*kind, places, &contents) {
                Ok(content) => content,
                Err(why) => {
                    left.push(why);
                    continue;
                }
            };
            let folder = folder_of(&places[0]);
            let end = match kind {
                RunKind::StyleSheets => "css",
                RunKind::Scripts => "js",
            };
            let place = loop {
                number += 1;
                let place = format!("{folder}concatenated-{number}.{end}");
                if is_free(&place) {
                    break place;
                }
            };
            *name = Some(place[folder.len()..].to_owned());
            made.push(JoinedFile { place, content });
        }
        (made, left)
    }

    /// Returns the document with the joined files, and the number of requests that a first visit saves. `None` if
    /// nothing changes.
    pub fn apply(
        &self,
        html: &[u8],
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Option<(Vec<u8>, u64)> {
        let mut requests = 0;
        let replaced: Vec<_> = runs(html)
            .ok()?
            .into_iter()
            .map(|run| {
                let files = files_of(&run, &place_of);
                let name = files.and_then(|files| self.found.get(&files)?.as_deref());
                let url = name.map(|name| beside(run.urls[0], name));
                requests += url.as_ref().map_or(0, |_| run.urls.len() as u64 - 1);
                (run, url)
            })
            .collect();
        (requests > 0).then(|| (join_runs(html, &replaced), requests))
    }

    /// Returns the files of each joined run of the document.
    pub fn joined_runs(
        &self,
        html: &[u8],
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Vec<Files> {
        let found = runs(html).unwrap_or_default();
        let files = found.iter().filter_map(|run| files_of(run, &place_of));
        files
            .filter(|files| self.found.get(files).is_some_and(Option::is_some))
            .collect()
    }

    /// Returns the place of the joined file for these files.
    pub fn place(&self, files: &Files) -> Option<String> {
        let name = self.found.get(files)?.as_deref()?;
        Some(format!("{}{name}", folder_of(files.1.first()?)))
    }

    /// Joins these files, given the content of each file.
    pub fn joined(
        &self,
        (kind, places): &Files,
        content_of: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let contents: Option<Vec<_>> = places.iter().map(|place| content_of(place)).collect();
        joined(*kind, places, &contents?).ok()
    }
}

fn files_of(run: &Run<'_>, place_of: &impl Fn(&str) -> Option<String>) -> Option<Files> {
    let places = run.urls.iter().map(|url| place_of(url));
    Some((run.kind, places.collect::<Option<_>>()?))
}

/// Joins the files, or returns the reason why a file cannot be joined.
fn joined(kind: RunKind, places: &[String], contents: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    match kind {
        RunKind::StyleSheets => {
            let folder = folder_of(&places[0]);
            let sheets: Vec<_> = places
                .iter()
                .zip(contents)
                .map(|(place, content)| StyleSheet {
                    content,
                    is_beside: folder_of(place) == folder,
                })
                .collect();
            join_style_sheets(&sheets)
                .map_err(|(index, why)| format!("{}: not concatenated: {why}", places[index]))
        }
        RunKind::Scripts => {
            let scripts: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            join_scripts(&scripts)
                .map_err(|(index, why)| format!("{}: not concatenated: {why}", places[index]))
        }
    }
}

/// Returns the folder of a place, with its final slash.
fn folder_of(place: &str) -> &str {
    place.rfind('/').map_or("", |slash| &place[..=slash])
}

/// Returns the URL of the file `name` in the same folder as the file at `url`.
fn beside(url: &str, name: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    format!("{}{name}", folder_of(&url[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_share_the_file_that_replaces_the_same_files() {
        let place_of = |url: &str| {
            url.trim_start_matches("../")
                .split('?')
                .next()
                .map(str::to_owned)
        };
        let mut all = Concatenations::default();
        let one =
            b"<link rel=stylesheet href=s/a.css?1><link rel=stylesheet href=b.css>".as_slice();
        let other = b"<link rel=stylesheet href=../s/a.css><link rel=stylesheet href=../b.css><script src=x></script><script src=y></script>";
        all.note(one, place_of).unwrap();
        all.note(other, place_of).unwrap();
        let content_of = |place: &str| match place {
            "s/a.css" => Some(b"a{}".to_vec()),
            "b.css" => Some(b"b{}".to_vec()),
            _ => None,
        };
        let (made, left) = all.make(content_of, |place| place != "s/concatenated-1.css");
        assert_eq!((made.len(), left.len()), (1, 0));
        assert_eq!(made[0].place, "s/concatenated-2.css");
        assert_eq!(made[0].content, b"a{}\nb{}");
        let (html, requests) = all.apply(one, place_of).unwrap();
        assert_eq!(html, b"<link rel=stylesheet href=\"s/concatenated-2.css\">");
        assert_eq!(requests, 1);
        let (html, _) = all.apply(other, place_of).unwrap();
        assert!(
            html.starts_with(
                b"<link rel=stylesheet href=\"../s/concatenated-2.css\"><script src=x>"
            )
        );
        let joined = all.joined_runs(other, place_of);
        assert_eq!(joined[0].1, ["s/a.css", "b.css"]);
        assert_eq!(all.joined(&joined[0], content_of).unwrap(), b"a{}\nb{}");
    }

    #[test]
    fn a_file_that_cannot_be_joined_is_named() {
        let mut all = Concatenations::default();
        let place_of = |url: &str| Some(url.to_owned());
        all.note(b"<script src=x></script><script src=y></script>", place_of)
            .unwrap();
        let (made, left) = all.make(|_| Some(b"'use strict'".to_vec()), |_| true);
        assert!(made.is_empty());
        assert!(left[0].starts_with("x: not concatenated: "), "{left:?}");
        assert!(
            all.apply(b"<script src=x></script><script src=y></script>", place_of)
                .is_none()
        );
    }
}
