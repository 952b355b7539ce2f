//! `fathometer unpack`: extracts an object package to a folder, or lists its files.

use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_model::Bytes;
use fathometer_package::Version;
use fathometer_sys::Interrupt;
use serde_json::json;

use super::Failure;
use super::arguments::size;
use fathometer_pack::extract::{Options, Target};
use fathometer_pack::listing::{self, files};
use fathometer_pack::unpack;
use fathometer_pack::{Flow, PackageError};

/// Arguments of `unpack`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fathometer unpack site.objp www          its files into the folder www
  fathometer unpack --list site.objp       list its files and verify all checksums
  curl -s -H 'Accept: application/vnd.fathometer.object-package' URL | fathometer unpack - www

A file appears only when it is complete and verified. If the package is damaged, the files before the
damage are kept. Nothing is ever written outside the folder, and symbolic links in it are not
followed.")]
pub struct UnpackArguments {
    /// The package; - reads it from stdin
    package: PathBuf,
    /// Folder to extract to, created if needed
    #[arg(default_value = ".", conflicts_with = "list")]
    folder: PathBuf,
    /// List the files of the package instead of extracting them
    #[arg(short, long)]
    list: bool,
    /// Decode content codings: write index.html instead of index.html.gz for a file stored with gzip
    #[arg(short, long, conflicts_with = "list")]
    decode: bool,
    /// Overwrite existing files, except files extracted from this package
    #[arg(short, long, conflicts_with = "list")]
    force: bool,
    /// Stop before all files together exceed this size in bytes; K, M, G and T are powers of 1024
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = size, conflicts_with = "list")]
    max_size: u64,
    /// Stop before the decoded files exceed this many times their size in the package
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 100,
        conflicts_with = "list"
    )]
    max_ratio: u64,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Extracts or lists. Exit code 1 if the package is incomplete; its complete files are still extracted.
pub fn run(arguments: &UnpackArguments) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::install()?;
    let mut package = Flow::read_from(&arguments.package, interrupt)?;
    if package.is_terminal() {
        return Err(
            "stdin is a terminal: give the name of a package, or redirect one to stdin".into(),
        );
    }
    match arguments.list {
        true => list(arguments, &mut package),
        false => extract(arguments, &mut package),
    }
}

fn extract(arguments: &UnpackArguments, package: &mut Flow) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let options = Options {
        overwrite: arguments.force,
        decode: arguments.decode,
        total: arguments.max_size,
        ratio: arguments.max_ratio,
    };
    let (held, result) = unpack::extract(package, Target::open(folder, options)?);
    let error = result.err();
    let written = files(held.files - held.kept);
    if arguments.json {
        let summary = json!({
            "package": package.path(),
            "folder": folder,
            "version": held.version.map(Version::number),
            "files": held.files - held.kept,
            "kept": held.kept,
            "content_bytes": held.content,
            "bytes": held.bytes,
            "error": error.as_ref().map(ToString::to_string),
        });
        println!("{summary:#}");
    } else if error.is_none() {
        println!(
            "{written}, {} written to {}",
            Bytes(held.content),
            folder.display()
        );
    }
    if held.kept > 0 {
        eprintln!(
            "{} of the package have no content: the client that requested the package has them",
            files(held.kept)
        );
    }
    match error {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(format!(
            "{error}\ncomplete before the error: {written}, in {}",
            folder.display()
        )
        .into()),
    }
}

fn list(arguments: &UnpackArguments, package: &mut Flow) -> Result<ExitCode, Failure> {
    match listing::list(package, arguments.json, BufWriter::new(io::stdout())) {
        // The reader of the list has closed the pipe.
        Ok(()) | Err(PackageError::ReaderClosed(_)) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}
