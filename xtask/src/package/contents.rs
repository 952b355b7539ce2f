//! The files of the packages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::Linkage;
use super::output_of;

/// Shells, each with the path at which Debian packages install its completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/fathometer"),
    ("zsh", "usr/share/zsh/vendor-completions/_fathometer"),
    (
        "fish",
        "usr/share/fish/vendor_completions.d/fathometer.fish",
    ),
];

/// The folder in which the packages install documentation.
const DOCS: &str = "usr/share/doc/fathometer";

/// One file to install.
struct Entry {
    /// The path below the root.
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
    /// Whether the file is installed in compressed form, with `.gz` added to its name (Debian policy, 12.1 and
    /// 12.7).
    compressed: bool,
}

/// The contents of the packages.
pub(super) struct Contents {
    /// The version of the program.
    pub(super) version: String,
    linkage: Linkage,
    program: Vec<u8>,
    files: Vec<Entry>,
}

impl Contents {
    /// Reads the program, and generates its manual pages and completions by running it.
    pub(super) fn generate(
        root: &Path,
        binary: &Path,
        linkage: Linkage,
    ) -> Result<Contents, String> {
        let version = output_of(Command::new(binary).arg("--version"))?;
        // The first line is `fathometer 0.1.0 (0123456789ab, modified)`.
        let version = version
            .split_whitespace()
            .nth(1)
            .ok_or_else(|| format!("{} --version prints no version", binary.display()))?
            .to_owned();
        let mut files = Vec::new();
        let mut add = |path: &str, content: Vec<u8>, compressed| {
            files.push(Entry {
                path: PathBuf::from(path),
                content,
                mode: 0o644,
                compressed,
            });
        };
        for (shell, path) in COMPLETIONS {
            let text = output_of(Command::new(binary).args(["completions", shell]))?;
            add(path, text.into_bytes(), false);
        }
        for (name, page) in manual_pages(root, binary)? {
            add(&format!("usr/share/man/man1/{name}"), page, true);
        }
        add(&format!("{DOCS}/copyright"), copyright(root)?, false);
        add(
            &format!("{DOCS}/changelog"),
            read(&root.join("CHANGELOG.md"))?,
            true,
        );
        add(
            &format!("{DOCS}/README.md"),
            read(&root.join("README.md"))?,
            false,
        );
        Ok(Contents {
            version,
            linkage,
            program: read(binary)?,
            files,
        })
    }

    /// Writes the installed files below `root`.
    pub(super) fn write_installed(&self, root: &Path) -> Result<(), String> {
        write(&root.join("usr/bin/fathometer"), &self.program, 0o755)?;
        for file in &self.files {
            let path = root.join(&file.path);
            write(&path, &file.content, file.mode)?;
            if file.compressed {
                // -n omits the name and the time, so that equal sources give equal packages.
                output_of(Command::new("gzip").args(["-9nf"]).arg(&path))?;
            }
        }
        Ok(())
    }

    /// Writes the control files of the Debian package whose files are below `root`.
    pub(super) fn write_control(&self, root: &Path) -> Result<(), String> {
        let installed: u64 = self
            .files
            .iter()
            .map(|file| file.content.len() as u64)
            .sum();
        let installed = (installed + self.program.len() as u64).div_ceil(1024);
        let depends = match self.linkage {
            Linkage::Static => "",
            Linkage::Dynamic => "Depends: libc6, libgcc-s1\n",
        };
        let control = format!(
            "Package: fathometer\n\
             Version: {}\n\
             Architecture: {}\n\
             Maintainer: The Fathometer developers <fathometer@localhost>\n\
             Installed-Size: {installed}\n\
             {depends}\
             Suggests: apache2, nginx, lighttpd, haproxy\n\
             Section: net\n\
             Priority: optional\n\
             Description: HTTP performance laboratory\n \
             Measures what an HTTP server, protocol or page costs: time, packets, bytes, CPU,\n \
             memory and connections. One program contains a load generator, an origin server,\n \
             an emulated network path, packet accounting and the analysis.\n",
            self.version,
            super::debian_architecture(),
        );
        write(&root.join("DEBIAN/control"), control.as_bytes(), 0o644)
    }

    /// Writes the root of the container image: the program and an empty `/tmp`.
    pub(super) fn write_image(&self, root: &Path) -> Result<(), String> {
        write(&root.join("usr/bin/fathometer"), &self.program, 0o755)?;
        let tmp = root.join("tmp");
        fs::create_dir_all(&tmp)
            .and_then(|()| fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)))
            .map_err(|error| format!("failed to make {}: {error}", tmp.display()))
    }
}

/// Both licences, in Debian's format.
fn copyright(root: &Path) -> Result<Vec<u8>, String> {
    let mut text = b"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                     Upstream-Name: Fathometer\n\
                     \n\
                     Files: *\n\
                     Copyright: The Fathometer developers\n\
                     License: MIT or Apache-2.0\n\
                     \n\
                     On Debian systems, the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n\
                     The MIT licence follows.\n\n"
        .to_vec();
    text.extend(read(&root.join("LICENSE-MIT"))?);
    Ok(text)
}

/// Returns the manual pages by file name, in alphabetical order.
fn manual_pages(root: &Path, binary: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let folder = super::emptied(&root.join("target/package-man"))?;
    output_of(
        Command::new(binary)
            .args(["completions", "--man"])
            .arg(&folder),
    )?;
    let failed = |error: std::io::Error| format!("failed to read {}: {error}", folder.display());
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        pages.push((name, read(&entry.path())?));
    }
    pages.sort();
    fs::remove_dir_all(&folder).map_err(failed)?;
    if pages.is_empty() {
        return Err(format!("{} wrote no manual page", binary.display()));
    }
    Ok(pages)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file, and creates its folders.
fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, content))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| format!("failed to write {}: {error}", path.display()))
}
