//! `fathometer site`: a workload's site as a folder, for any server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_model::{Seed, Site};
use fathometer_workload::microscape::{self, Variant};

use super::Failure;
use crate::site_folder;

/// Arguments of `site`.
#[derive(Debug, Args)]
pub struct SiteArguments {
    /// The workload: microscape
    workload: String,
    /// The folder to write it to; made if need be, other files in it stay
    folder: PathBuf,
    /// The seed of its content
    #[arg(long, default_value_t = 1997)]
    seed: u64,
    /// Spell the page's tags in mixed case, which deflates worse
    #[arg(long)]
    mixed_case: bool,
    /// Print the statistics as JSON
    #[arg(long)]
    json: bool,
}

/// Writes the site and prints its statistics.
pub fn run(arguments: &SiteArguments) -> Result<ExitCode, Failure> {
    let variant = if arguments.mixed_case {
        Variant::MixedCase
    } else {
        Variant::LowerCase
    };
    let site = workload(&arguments.workload, Seed(arguments.seed), variant)?;
    let written = site_folder::write(&site, &arguments.folder)?;
    let total: u64 = site.files.iter().map(|file| file.body.len().0).sum();
    if arguments.json {
        let files: Vec<_> = site
            .files
            .iter()
            .map(|file| {
                let coded: Vec<_> = file
                    .encoded
                    .iter()
                    .map(|(coding, body)| {
                        serde_json::json!({ "coding": coding.token(), "bytes": body.len().0 })
                    })
                    .collect();
                serde_json::json!({
                    "path": file.path, "type": file.content_type,
                    "bytes": file.body.len().0, "coded": coded,
                })
            })
            .collect();
        let summary = serde_json::json!({
            "site": site.name, "seed": arguments.seed, "bytes": total, "files": files,
        });
        println!("{summary:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut sizes: Vec<u64> = site.files.iter().map(|file| file.body.len().0).collect();
    sizes.sort_unstable();
    println!(
        "{}: {} files of {total} B, {written} written to {} (seed {})",
        site.name,
        site.files.len(),
        arguments.folder.display(),
        arguments.seed
    );
    println!(
        "sizes: min {} B, median {} B, max {} B",
        sizes.first().unwrap_or(&0),
        sizes.get(sizes.len() / 2).unwrap_or(&0),
        sizes.last().unwrap_or(&0)
    );
    for file in site.files.iter().filter(|file| !file.encoded.is_empty()) {
        for (coding, body) in &file.encoded {
            println!(
                "{} as {}: {} B of {} B ({:.3})",
                file.path,
                coding.token(),
                body.len().0,
                file.body.len().0,
                body.len().as_f64() / file.body.len().as_f64()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The site of a workload by its name.
pub fn workload(name: &str, seed: Seed, variant: Variant) -> Result<Site, Failure> {
    match name {
        "microscape" => Ok(microscape::site(seed.stream("workload"), variant)),
        other => Err(format!("there is no workload named {other:?}: there is microscape").into()),
    }
}
