//! `fathometer pack`: builds an object package of a folder, a page of it, a list of its files, or an HTTP
//! archive.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_model::{Bytes, ContentCoding};
use fathometer_package::Version;
use fathometer_sys::Interrupt;

use super::Failure;
use fathometer_pack::output::Output;
use fathometer_pack::pack::{self, Packed};
use fathometer_pack::progress::{All, Progress};
use fathometer_pack::source::{Folder, Items, Known, List};
use fathometer_pack::{Flow, PackageError, har};

/// Maximum number of notes that are printed individually.
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
    /// Write the package to this file, which appears only when it is complete [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Pack only this page of the folder (the path of its HTML) and the files embedded in it
    #[arg(long, value_name = "PATH", conflicts_with = "names")]
    page: Option<String>,
    /// Pack only the files listed here, in that order, one path per line relative to the folder; - reads the
    /// list from stdin and packs each file as soon as its line arrives
    #[arg(long, value_name = "LIST")]
    names: Option<PathBuf>,
    /// Paths of that list end with NUL, as `find -print0` writes them
    #[arg(short = '0', long, requires = "names")]
    null: bool,
    /// Pack the files of this host of a HAR (and port, if its URLs have one) [default: that of the first
    /// request]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Format version: 1, the layout of the paper, has no metadata except names, sizes and attributes
    #[arg(long, value_name = "1|2", default_value = "2", value_parser = version)]
    format: Version,
    /// Compress text in the package with this content coding: gzip or deflate (format 2)
    #[arg(long, value_name = "CODING", value_parser = coding)]
    coding: Option<ContentCoding>,
    /// Overwrite the output file
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Print a summary of the package as JSON
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

/// Builds the package. Files that are left out are reported on stderr and are not an error.
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

/// What to pack.
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

    /// Prints what is left out, and returns it.
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
