//! Tests the packages: installs the Debian package into an empty root, and uses the installed files.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::elf::Linkage;
use super::{Written, emptied, output_of};

/// Installs and tests the packages. Needs root, dpkg, man and bash.
pub(super) fn run(written: &Written, linkage: Linkage) -> Result<(), String> {
    let root = emptied(&written.debian.with_extension("root"))?;
    install(written, &root, linkage)?;
    manual_pages(&root)?;
    bash_completion(&root)?;
    program(&root, linkage)?;
    archive(written)?;
    image(written, linkage)?;
    fs::remove_dir_all(&root)
        .map_err(|error| format!("failed to remove {}: {error}", root.display()))
}

/// Installs the Debian package with a dpkg database of a system without any package.
fn install(written: &Written, root: &Path, linkage: Linkage) -> Result<(), String> {
    let database = root.join("var/lib/dpkg");
    for folder in ["updates", "info"] {
        let folder = database.join(folder);
        fs::create_dir_all(&folder)
            .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
    }
    for file in ["status", "available"] {
        let file = database.join(file);
        fs::write(&file, "")
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
    }
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display()));
    // The package of a dynamic program (used only by tests) depends on libc6, which an empty root lacks.
    if linkage == Linkage::Dynamic {
        command.arg("--force-depends");
    }
    output_of(command.arg("-i").arg(&written.debian))?;
    let status = output_of(
        Command::new("dpkg-query")
            .arg(format!("--root={}", root.display()))
            .args(["-W", "-f", "${Status}", "fathometer"]),
    )?;
    expect(
        "dpkg reports the package",
        status == "install ok installed",
        &status,
    )
}

/// Checks that each command has a page that `man` shows without a warning.
fn manual_pages(root: &Path) -> Result<(), String> {
    let folder = root.join("usr/share/man/man1");
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?
    {
        pages.push(entry.map_err(|error| error.to_string())?.path());
    }
    pages.sort();
    expect(
        "there is a page for the program and for its commands",
        pages.len() > 10 && pages.iter().any(|page| page.ends_with("fathometer.1.gz")),
        &format!("{pages:?}"),
    )?;
    for page in &pages {
        let output = Command::new("man")
            .args(["--warnings=w", "-l"])
            .arg(page)
            .envs([
                ("MANWIDTH", "100"),
                ("LC_ALL", "C.UTF-8"),
                ("MANPAGER", "cat"),
            ])
            .output()
            .map_err(|error| format!("failed to run man: {error}"))?;
        let (text, warnings) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        expect(
            &format!("man shows {}", page.display()),
            output.status.success() && text.contains("NAME") && warnings.is_empty(),
            &warnings,
        )?;
    }
    println!("package: man shows {} pages without a warning", pages.len());
    Ok(())
}

/// Checks that bash completes a command and an option from the installed file.
fn bash_completion(root: &Path) -> Result<(), String> {
    let file = root.join("usr/share/bash-completion/completions/fathometer");
    let script = r#"
        source "$0"
        complete -p fathometer >/dev/null || exit 1
        COMP_WORDS=(fathometer bott) COMP_CWORD=1
        _fathometer fathometer bott fathometer
        echo "${COMPREPLY[*]}"
        COMP_WORDS=(fathometer load --conn) COMP_CWORD=2
        _fathometer fathometer --conn load
        echo "${COMPREPLY[*]}"
    "#;
    let replies = output_of(Command::new("bash").args(["-c", script]).arg(&file))?;
    expect(
        "bash completes `bott` and `load --conn`",
        replies.lines().next() == Some("bottleneck") && replies.contains("--connections"),
        &replies,
    )?;
    println!("package: bash completes commands and options");
    Ok(())
}

/// Checks that the installed program works, in the empty root itself if it is static.
fn program(root: &Path, linkage: Linkage) -> Result<(), String> {
    let mut command = match linkage {
        Linkage::Static => {
            let mut command = Command::new("chroot");
            command.arg(root).arg("/usr/bin/fathometer");
            command
        }
        Linkage::Dynamic => Command::new(root.join("usr/bin/fathometer")),
    };
    let studies = output_of(command.arg("list"))?;
    expect(
        "the installed program lists its studies",
        studies.contains("nielsen97"),
        &studies,
    )?;
    println!("package: the installed program works");
    Ok(())
}

/// Checks that the archive contains the program below one folder.
fn archive(written: &Written) -> Result<(), String> {
    let list = output_of(Command::new("tar").arg("-tzf").arg(&written.archive))?;
    expect(
        "the archive contains the program",
        list.lines()
            .any(|line| line.ends_with("/usr/bin/fathometer")),
        &list,
    )
}

/// Checks that `doctor` runs in the root of the image, which contains nothing else. Then checks that experiments
/// are possible where a container mounts /proc, /dev and /sys.
fn image(written: &Written, linkage: Linkage) -> Result<(), String> {
    if linkage == Linkage::Dynamic {
        println!("package: a dynamic program cannot run in the image: `doctor` was not run there");
        return Ok(());
    }
    let root = written.image.join("root");
    let (code, text) = doctor(Command::new("chroot").arg(&root))?;
    expect(
        "doctor runs in the root of the image, and reports what is missing there",
        code == Some(1) && text.contains("yes timers") && text.contains("mount -t proc proc /proc"),
        &text,
    )?;
    println!("package: doctor runs in the root of the image");
    let container = emptied(&written.image.with_extension("container"))?;
    output_of(
        Command::new("cp")
            .arg("-a")
            .arg(root.join("."))
            .arg(&container),
    )?;
    // The mounts end with the namespace of `unshare`.
    let script = r#"
        cd "$0"
        mkdir proc dev sys
        mount -t proc proc proc
        mount --rbind /dev dev
        mount --rbind /sys sys
        exec chroot . "$@"
    "#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "sh", "-ec", script]);
    let (code, text) = doctor(unshare.arg(&container))?;
    expect(
        "doctor finds that experiments can be run in a container of the image",
        code == Some(0) && text.contains("experiments can be run here"),
        &text,
    )?;
    println!("package: experiments can be run in a container of the image");
    fs::remove_dir_all(&container)
        .map_err(|error| format!("failed to remove {}: {error}", container.display()))
}

/// Runs `doctor` through `command`, which changes the root. Returns the exit code and all output.
fn doctor(command: &mut Command) -> Result<(Option<i32>, String), String> {
    let output = command
        .args(["/usr/bin/fathometer", "doctor"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("TMPDIR", "/tmp")
        .output()
        .map_err(|error| format!("failed to run chroot or unshare: {error}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), text))
}

fn expect(what: &str, holds: bool, found: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(format!("failed check: {what}: {found}")),
    }
}
