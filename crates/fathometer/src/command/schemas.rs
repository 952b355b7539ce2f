//! `fathometer schemas`: writes the JSON Schemas of the files that users write.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_files::whole_file;
use fathometer_study::schemas;

use super::Failure;

/// Arguments of `schemas`.
#[derive(Debug, Args)]
pub struct SchemasArguments {
    /// Folder to write the schemas to; it is created, and existing schemas are replaced
    folder: PathBuf,
}

/// Writes the schemas.
pub fn run(arguments: &SchemasArguments) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let failed = |path: &std::path::Path, error| -> Failure {
        format!("cannot write {}: {error}", path.display()).into()
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for schema in schemas::all() {
        let path = folder.join(schema.file());
        whole_file::write(&path, schema.text().as_bytes()).map_err(|error| failed(&path, error))?;
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
