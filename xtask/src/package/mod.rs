//! `cargo xtask package`: a static binary as a Debian package, an archive, and the content of a container image.
//!
//! The packages install the program, its manual pages and its shell completions, all generated from the definitions
//! of its commands. All times in the packages are the time of the last commit, so that the same sources give the
//! same packages.

mod check;
mod contents;
mod elf;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use self::contents::Contents;

/// Build the Debian package, the archive and the content of the container image.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Program to package [default: a static release build of this workspace].
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// Folder for the packages.
    #[arg(long, value_name = "FOLDER", default_value = "target/package")]
    output: PathBuf,
    /// Also install the Debian package into an empty root and test the installed files (needs root and dpkg).
    #[arg(long)]
    check: bool,
}

/// The packages that were written.
struct Written {
    debian: PathBuf,
    archive: PathBuf,
    /// The folder that `packaging/Containerfile` copies from.
    image: PathBuf,
}

/// Writes the packages, and checks them if `arguments` request it.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => static_build(root)?,
    };
    let linkage = elf::linkage(&binary)?;
    let output = root.join(&arguments.output);
    let contents = Contents::generate(root, &binary, linkage)?;
    let written = write(root, &contents, &output)?;
    println!("{} ({linkage})", written.debian.display());
    println!("{}", written.archive.display());
    println!(
        "{}: podman build -t fathometer -f packaging/Containerfile {}",
        written.image.display(),
        written.image.display()
    );
    if arguments.check {
        check::run(&written, linkage)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the program without dynamic libraries, in a separate target folder: otherwise the different flags would
/// rebuild everything each time.
fn static_build(root: &Path) -> Result<PathBuf, String> {
    let host = output_of(Command::new("rustc").arg("-vV"))?;
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc -vV reports no host")?;
    let target = root.join("target/static");
    // With an explicit target, the flags do not apply to build scripts and procedural macros, which must be dynamic.
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "-p", "fathometer"])
        .args(["--target", host, "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        // Function names remain, for backtraces. Line tables are removed, because they would make the program four
        // times as large.
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .current_dir(root)
        .status()
        .map_err(|error| format!("failed to run cargo build: {error}"))?;
    if !status.success() {
        return Err("failed to build the static binary".to_owned());
    }
    Ok(target.join(host).join("release/fathometer"))
}

/// Writes all packages to `output`, and replaces the packages of an earlier call.
fn write(root: &Path, contents: &Contents, output: &Path) -> Result<Written, String> {
    fs::create_dir_all(output)
        .map_err(|error| format!("failed to make {}: {error}", output.display()))?;
    let name = format!(
        "fathometer-{}-linux-{}",
        contents.version,
        std::env::consts::ARCH
    );
    let stage = output.join("stage");
    let time = commit_time(root);

    let debian_root = emptied(&stage.join("debian"))?;
    contents.write_installed(&debian_root)?;
    contents.write_control(&debian_root)?;
    let debian = output.join(format!(
        "fathometer_{}_{}.deb",
        contents.version,
        debian_architecture()
    ));
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&debian_root)
        .arg(&debian)
        .env("SOURCE_DATE_EPOCH", &time);
    output_of(&mut command)?;

    let archive_root = emptied(&stage.join("archive"))?;
    contents.write_installed(&archive_root.join(&name))?;
    let archive = output.join(format!("{name}.tar.gz"));
    let mut command = Command::new("tar");
    command
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{time}"))
        .arg("-C")
        .arg(&archive_root)
        .arg("-czf")
        .arg(&archive)
        .arg(&name);
    output_of(&mut command)?;

    let image = emptied(&output.join("image"))?;
    contents.write_image(&image.join("root"))?;
    fs::remove_dir_all(&stage)
        .map_err(|error| format!("failed to remove {}: {error}", stage.display()))?;
    Ok(Written {
        debian,
        archive,
        image,
    })
}

/// Creates an empty folder; deletes its previous contents.
fn emptied(folder: &Path) -> Result<PathBuf, String> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| format!("failed to remove {}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder)
        .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Returns the time of the last commit in seconds since 1970; 0 without git.
fn commit_time(root: &Path) -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root);
    match output_of(&mut git) {
        Ok(time) if !time.trim().is_empty() => time.trim().to_owned(),
        _ => "0".to_owned(),
    }
}

/// Debian's name of this architecture.
fn debian_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "i386",
        "arm" => "armhf",
        other => other,
    }
}

/// Runs a command and returns its stdout.
fn output_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("failed to run {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
