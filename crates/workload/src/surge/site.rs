//! A SURGE workload as a plan and as a site.

use std::sync::Arc;

use fathometer_model::{FileId, Page, Site};

use crate::plan::{Choice, PageId, Plan, Sessions, Target};
use crate::synthetic::{self, FileSpec};

use super::{Kind, Surge};

impl Surge {
    /// Returns the path of the file with this index in `files`: `/b/` for base files, `/e/` for embedded files, `/s/`
    /// for single files, numbered within their kind. A single file is HTML if its size is from the first part of its
    /// law, and otherwise PDF, whose sizes are larger.
    pub fn path(&self, file: usize) -> String {
        let kind = self.files[file].kind;
        let number = file - self.files.partition_point(|other| other.kind < kind);
        match kind {
            Kind::Base => format!("/b/{number:06}.html"),
            Kind::Embedded => format!("/e/{number:06}.gif"),
            Kind::Single => {
                let extension = match self.files[file].part {
                    0 => "html",
                    _ => "pdf",
                };
                format!("/s/{number:06}.{extension}")
            }
        }
    }

    /// Returns the specifications of the files, in the order of `files`.
    fn file_specs(&self) -> impl ExactSizeIterator<Item = FileSpec> {
        (0..self.files.len()).map(|file| {
            let path = self.path(file);
            FileSpec {
                content_type: synthetic::type_of(&path),
                size: self.files[file].size.0,
                path,
            }
        })
    }

    /// Creates the site, with synthetic files. Base files contain as many references to their embedded files as fit
    /// into their size. `ratio` is the fraction to which DEFLATE reduces the texts.
    pub fn site(&self, ratio: f64) -> Site {
        let pages = (0..self.pages.len() as u32).map(|page| {
            let members = self.pages.get(PageId(page)).members;
            Page {
                base: FileId(members[0].0),
                embedded: members[1..].iter().map(|file| FileId(file.0)).collect(),
                named_by: Vec::new(),
            }
        });
        synthetic::site(
            "surge",
            self.file_specs().collect(),
            pages.collect(),
            ratio,
            self.seed,
        )
    }

    /// Creates the plan of the requests: the global sequence of pages, sessions and OFF times.
    pub fn into_plan(self) -> Plan {
        let targets = (0..self.files.len())
            .map(|file| Target::get(self.path(file), Some(self.files[file].size)))
            .collect();
        Plan {
            name: "surge".to_owned(),
            targets,
            pages: self.pages,
            choice: Choice::Sequence(Arc::from(self.sequence)),
            sessions: Sessions {
                pages: self.parameters.session_pages,
                off: Some(self.parameters.off),
            },
            recorded: None,
        }
    }
}
