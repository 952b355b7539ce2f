//! `fathometer site`: writes a workload's site to a folder, for any server, and prints the workload's figures.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_model::{Seed, Site};
use fathometer_workload::microscape::{self, Variant};

use super::{Failure, usage};
use fathometer_files::site_folder;
use fathometer_load::workload::{self, Loaded, SEED};

/// Arguments of `site`.
#[derive(Debug, Args)]
pub struct SiteArguments {
    /// The workload: microscape, surge:files=2000,requests=500000, webstone, today … (see `fathometer list`)
    workload: String,
    /// Folder to write the site to; created if needed, other files in it stay. Without it, only the figures are
    /// printed
    folder: Option<PathBuf>,
    /// Seed of the content
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Write the tags in mixed case, which compresses worse; only for the workload microscape
    #[arg(long, requires = "folder")]
    mixed_case: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Writes the site and prints its statistics.
pub fn run(arguments: &SiteArguments) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let seed = Seed(arguments.seed);
    let mut progress = stages();
    let loaded = workload::load(&arguments.workload, seed, &mut progress)?;
    let variant = match arguments.mixed_case {
        true => Variant::MixedCase,
        false => Variant::LowerCase,
    };
    let (site, written) = match &arguments.folder {
        None => (None, 0),
        Some(folder) => {
            let site = match arguments.workload.as_str() {
                "microscape" => microscape::site(seed.stream("workload"), variant),
                _ => loaded.site(seed),
            };
            let written = site_folder::write(&site, folder)?;
            (Some(site), written)
        }
    };
    if arguments.json {
        print_json(arguments, &loaded, site.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} (seed {})", arguments.workload, arguments.seed);
    println!("{}", loaded.figures().trim_end());
    if let Some(site) = &site {
        print_coded(site);
    }
    if let Some(fit) = loaded.fit() {
        println!("\n{}", fit.to_string().trim_end());
    }
    for note in loaded.notes() {
        println!("note: {note}");
    }
    if let Some(folder) = &arguments.folder {
        println!("{written} files written to {}", folder.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if an option has no effect on the workload.
fn check(arguments: &SiteArguments) -> Result<(), Failure> {
    let workload = &arguments.workload;
    if arguments.mixed_case && workload != "microscape" {
        return Err(usage(format!(
            "--mixed-case changes only the workload microscape, and not {workload}: remove the option, or choose \
             microscape"
        )));
    }
    Ok(())
}

/// Returns a function that prints each stage of a long generation once, on stderr.
pub fn stages() -> impl FnMut(&str, f64) {
    let mut last = String::new();
    move |stage, _| {
        if stage != last {
            eprintln!("making {stage}");
            stage.clone_into(&mut last);
        }
    }
}

fn print_json(
    arguments: &SiteArguments,
    loaded: &Loaded,
    site: Option<&Site>,
) -> Result<(), Failure> {
    let files: Option<Vec<_>> = site.map(|site| {
        site.files
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
            .collect()
    });
    let summary = serde_json::json!({
        "workload": arguments.workload,
        "seed": arguments.seed,
        "statistics": loaded.figures_json()?,
        "fit": loaded.fit(),
        "notes": loaded.notes(),
        "files": files,
    });
    println!("{summary:#}");
    Ok(())
}

fn print_coded(site: &Site) {
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
}

/// Generates the site of the named workload.
pub fn workload(name: &str, seed: Seed, variant: Variant) -> Result<Site, Failure> {
    if name == "microscape" {
        return Ok(microscape::site(seed.stream("workload"), variant));
    }
    let loaded = workload::load(name, seed, &mut stages())?;
    for note in loaded.notes() {
        eprintln!("{name}: {note}");
    }
    Ok(loaded.site(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_case_without_an_effect_is_an_error() {
        let arguments = |workload: &str| SiteArguments {
            workload: workload.to_owned(),
            folder: Some(PathBuf::from("site")),
            seed: SEED,
            mixed_case: true,
            json: false,
        };
        assert!(check(&arguments("microscape")).is_ok());
        for workload in ["microscape-css", "microscape:files=8", "surge"] {
            let error = check(&arguments(workload)).unwrap_err();
            assert!(error.is::<super::super::UsageError>(), "{error}");
        }
    }
}
