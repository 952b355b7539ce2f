//! `fathometer pack`: an object package of a folder, a page of it, a list of its files, or an HTTP
//! archive.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_http::package::Version;
use fathometer_model::{Bytes, ContentCoding};
use fathometer_sys::Interrupt;

use super::Failure;
use crate::package::output::Output;
use crate::package::pack::{self, Packed};
use crate::package::progress::{All, Progress};
use crate::package::source::{Folder, Items, Known, List};
use crate::package::{Flow, PackageError, har};

/// Notes of one run that are printed singly.
const NOTES: usize = 10;

/// Arguments of `pack`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fathometer pack site -o site.objp                      all files of a folder
  fathometer pack site --page index.html -o page.objp    a page and what it embeds, critical files first
  fathometer pack visit.har -o visit.objp                what a browser saved (HAR with contents)
  fathometer pack site -o site.objp --coding gzip        with text in gzip
  find . -name '*.html' | fathometer pack . --names - | ssh host fathometer unpack - www

A file is read when its turn comes, in pieces: a package may be larger than the memory. Names in the
package are the files' paths from the folder, percent-encoded as in a URL.")]
pub struct PackArguments {
    /// A folder, or a HAR file with contents; - reads a HAR from stdin
    source: PathBuf,
    /// Where to write the package: it appears there when it is whole. Without this it goes to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only this page of the folder (the path of its HTML) and what it embeds
    #[arg(long, value_name = "PATH", conflicts_with = "names")]
    page: Option<String>,
    /// Only the files listed here, one path a line from the folder, in that order; - reads the list from
    /// stdin and packs each file as soon as its line is there
    #[arg(long, value_name = "LIST")]
    names: Option<PathBuf>,
    /// Paths of that list end with NUL, as `find -print0` writes them
    #[arg(short = '0', long, requires = "names")]
    null: bool,
    /// Of a HAR, the files of this host (and port, if its URLs have one) [default: that of the first
    /// request]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The version of the format: 1, the layout of the paper, has names, sizes and attributes only
    #[arg(long, value_name = "1|2", default_value = "2", value_parser = version)]
    format: Version,
    /// Put text into the package in this content coding: gzip or deflate (format 2)
    #[arg(long, value_name = "CODING", value_parser = coding)]
    coding: Option<ContentCoding>,
    /// Overwrite the output
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Print what was packed as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

fn version(text: &str) -> Result<Version, String> {
    let number = text.parse().ok().and_then(Version::of_number);
    number.ok_or_else(|| "there are versions 1 and 2".to_owned())
}

fn coding(text: &str) -> Result<ContentCoding, String> {
    match text {
        "gzip" => Ok(ContentCoding::Gzip),
        "deflate" => Ok(ContentCoding::Deflate),
        _ => Err("there are gzip and deflate".to_owned()),
    }
}

/// Makes the package. What was left out is told on stderr and does not fail.
pub fn run(arguments: &PackArguments) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::install()?;
    if arguments.coding.is_some() && arguments.format == Version::One {
        return Err("--coding takes --format 2: version 1 has no word for codings".into());
    }
    let mut plan = Plan::new(arguments, interrupt)?;
    let left_out = plan.tell_left_out();
    let output = match &arguments.output {
        Some(path) => Output::file(path, arguments.force, interrupt)?,
        None => Output::stdout(interrupt)?,
    };
    let shown = output.path().display().to_string();
    let all = plan.items().count().map(All::Files);
    let mut progress = Progress::new("packed", all);
    let folder = plan.folder.take();
    let packed = pack::pack(
        plan.items(),
        folder.as_ref(),
        (arguments.format, arguments.coding),
        output,
        &mut progress,
        interrupt,
    );
    progress.clear();
    let packed = packed?;
    let text = told(&shown, arguments.format, packed);
    match (&arguments.output, arguments.json) {
        (Some(_), true) => {
            let summary = serde_json::json!({
                "package": shown,
                "version": arguments.format.number(),
                "files": packed.files,
                "content_octets": packed.content,
                "octets": packed.octets,
                "left_out": left_out,
            });
            println!("{summary:#}");
        }
        (Some(_), false) => println!("{text}"),
        (None, _) => eprintln!("{text}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn told(shown: &str, version: Version, packed: Packed) -> String {
    let Packed {
        files,
        content,
        octets,
    } = packed;
    let files = match files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    format!(
        "{shown}: {files}, {} in a package of version {} of {}",
        Bytes(content),
        version.number(),
        Bytes(octets)
    )
}

/// What is to be packed.
struct Plan {
    folder: Option<Folder>,
    what: What,
}

enum What {
    Known(Known),
    List(List),
}

impl Plan {
    fn new(arguments: &PackArguments, interrupt: Interrupt) -> Result<Plan, Failure> {
        let source = &arguments.source;
        if !source.is_dir() {
            if arguments.page.is_some() || arguments.names.is_some() {
                return Err(format!(
                    "{} is no folder, and --page and --names need one",
                    source.display()
                )
                .into());
            }
            let known = Plan::archive(source, arguments.host.as_deref(), interrupt)?;
            let what = What::Known(known);
            return Ok(Plan { folder: None, what });
        }
        if arguments.host.is_some() {
            return Err("--host is for HAR files, and this is a folder".into());
        }
        let folder = Folder::open(source)?;
        let what = match (&arguments.page, &arguments.names) {
            (Some(page), _) => What::Known(folder.page(page)?),
            (None, Some(list)) => {
                let separator = if arguments.null { 0 } else { b'\n' };
                What::List(List::new(Flow::read_from(list, interrupt)?, separator))
            }
            (None, None) => What::Known(folder.files()?),
        };
        let folder = Some(folder);
        Ok(Plan { folder, what })
    }

    fn archive(
        source: &Path,
        host: Option<&str>,
        interrupt: Interrupt,
    ) -> Result<Known, PackageError> {
        let mut flow = Flow::read_from(source, interrupt)?;
        let shown = flow.path().display().to_string();
        let mut reading = flow.reading();
        let read = har::read(&shown, &mut reading, host);
        match reading.failure.take() {
            Some(failure) => Err(failure),
            None => read,
        }
    }

    fn items(&mut self) -> &mut dyn Items {
        match &mut self.what {
            What::Known(known) => known,
            What::List(list) => list,
        }
    }

    /// Tells of what is left out, and gives it back.
    fn tell_left_out(&mut self) -> Vec<String> {
        let What::Known(known) = &mut self.what else {
            return Vec::new();
        };
        let left_out = std::mem::take(&mut known.left_out);
        for note in left_out.iter().take(NOTES) {
            eprintln!("left out: {note}");
        }
        if left_out.len() > NOTES {
            eprintln!("left out: {} more", left_out.len() - NOTES);
        }
        left_out
    }
}
