//! `fathometer pack`: builds an object package of a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_model::Bytes;
use fathometer_package::Version;
use fathometer_sys::Interrupt;

use super::Failure;
use fathometer_pack::folder::Folder;
use fathometer_pack::listing::files;
use fathometer_pack::output::Output;
use fathometer_pack::pack;

/// Maximum number of notes that are printed individually.
const NOTES: usize = 10;

/// Arguments of `pack`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fathometer pack site -o site.objp                       all files of a folder
  fathometer pack site | ssh host fathometer unpack - www   the same through a pipe

Files are read one after another, in pieces, so a package may be larger than the memory. Names in the
package are the files' paths relative to the folder, percent-encoded as in a URL.")]
pub struct PackArguments {
    /// The folder to pack
    folder: PathBuf,
    /// Write the package to this file, which appears only when it is complete [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format version: 1, the layout of the paper, has no metadata except names, sizes and attributes
    #[arg(long, value_name = "1|2", default_value = "2", value_parser = version)]
    format: Version,
    /// Overwrite the output file
    #[arg(short, long, requires = "output")]
    force: bool,
    /// Print a summary of the package as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

fn version(text: &str) -> Result<Version, String> {
    let number = text.parse().ok().and_then(Version::of_number);
    number.ok_or_else(|| "write 1 or 2".to_owned())
}

/// Builds the package. Files that are left out are reported on stderr and are not an error.
pub fn run(arguments: &PackArguments) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::install()?;
    let folder = Folder::open(&arguments.folder)?;
    let found = folder.files()?;
    for note in found.left_out.iter().take(NOTES) {
        eprintln!("left out: {note}");
    }
    if found.left_out.len() > NOTES {
        eprintln!("left out: {} more", found.left_out.len() - NOTES);
    }
    let output = match &arguments.output {
        Some(path) => Output::file(path, arguments.force, interrupt)?,
        None => Output::stdout(interrupt)?,
    };
    let shown = output.path().display().to_string();
    let version = arguments.format;
    let packed = pack::pack(&folder, &found.files, version, output, interrupt)?;
    if arguments.json {
        let summary = serde_json::json!({
            "package": shown,
            "version": version.number(),
            "files": packed.files,
            "content_bytes": packed.content,
            "bytes": packed.bytes,
            "left_out": found.left_out,
        });
        println!("{summary:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let text = format!(
        "{shown}: {}, {} of content; package version {}, {}",
        files(packed.files),
        Bytes(packed.content),
        version.number(),
        Bytes(packed.bytes)
    );
    match &arguments.output {
        Some(_) => println!("{text}"),
        None => eprintln!("{text}"),
    }
    Ok(ExitCode::SUCCESS)
}
