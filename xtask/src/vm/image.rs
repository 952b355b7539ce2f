//! Builds the guest's disks in `target/vm` from Debian packages and from programs of this machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that this module needs, with their Debian packages.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mke2fs", "e2fsprogs"),
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
    ("bash", "bash"),
    ("ip", "iproute2"),
    ("setpriv", "util-linux"),
    ("setfattr", "attr"),
    ("strip", "binutils"),
    ("gzip", "gzip"),
];

/// The package that depends on the newest kernel, and the package with BusyBox for the guest's initial file system.
const KERNEL: &str = "linux-image-cloud-amd64";
const BUSYBOX: &str = "busybox-static";

/// Modules that the guest needs to find its disk, in the order in which they are loaded.
const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "crc16",
    "mbcache",
    "jbd2",
    "crc32c_generic",
    "libcrc32c",
    "ext4",
];

/// Modules that the program needs, below `kernel/`.
const MORE_MODULES: &[&str] = &["drivers/net/tun.ko", "net/ipv4", "net/netlink"];

const FIRST_INIT: &str = "#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for round in 1 2; do for m in /m/*.ko; do insmod $m 2>/dev/null; done; done
i=0; while [ ! -b /dev/vda ] && [ $i -lt 150 ]; do sleep 0.2; i=$((i+1)); done
mount -t ext4 -o rw /dev/vda /new
exec switch_root /new /sbin/init
";

/// The program folders of Debian, some of which are not on every user's PATH.
const PATHS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// A guest that is ready to start.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) folder: PathBuf,
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    pub(super) root: PathBuf,
}

/// Checks that everything needed to build the guest is installed; otherwise returns what to install.
pub(super) fn requirements() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err(
            "the guest has x86-64 processors, and runs programs of this machine: \
                    run this on x86-64"
                .to_owned(),
        );
    }
    let missing: BTreeSet<&str> = NEEDED
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<&str> = missing.into_iter().collect();
    Err(format!(
        "programs are missing: apt-get install -y --no-install-recommends {}",
        missing.join(" ")
    ))
}

/// Builds the debug program.
pub(super) fn build_program(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["build", "--locked", "--quiet", "--package", "fathometer"])
        .args(["--bin", "fathometer"]);
    succeed(&mut command)?;
    Ok(target(root).join("debug/fathometer"))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

impl Image {
    /// Builds the disks from packages, each of which is downloaded only once.
    pub(super) fn build(root: &Path, binary: &Path) -> Result<Image, String> {
        let folder = target(root).join("vm");
        let packages = folder.join("packages");
        create(&packages)?;
        let busybox = unpacked(&packages, BUSYBOX)?.join("bin/busybox");
        let kernel = kernel_package(&packages)?;
        let version = only_entry(&kernel.join("lib/modules"))?;
        let modules = kernel.join("lib/modules").join(&version);
        let image = Image {
            kernel: kernel.join(format!("boot/vmlinuz-{version}")),
            initrd: folder.join("initrd.gz"),
            root: folder.join("root.img"),
            folder,
        };
        image.make_initrd(&busybox, &modules)?;
        image.make_root(&busybox, &modules, &version, binary)?;
        Ok(image)
    }

    fn make_initrd(&self, busybox: &Path, modules: &Path) -> Result<(), String> {
        let tree = self.folder.join("initrd");
        fresh(&tree)?;
        for folder in ["bin", "proc", "sys", "dev", "new", "m"] {
            create(&tree.join(folder))?;
        }
        copy(busybox, &tree.join("bin/busybox"))?;
        for name in ["sh", "mount", "insmod", "switch_root", "sleep"] {
            link("busybox", &tree.join("bin").join(name))?;
        }
        for (n, name) in MODULES.iter().enumerate() {
            // A kernel may have this module built in.
            if let Some(file) = find_below(modules, &format!("{name}.ko")) {
                copy(&file, &tree.join(format!("m/{n:02}-{name}.ko")))?;
            }
        }
        write_program(&tree.join("init"), FIRST_INIT)?;
        let mut command = Command::new("bash");
        command
            .current_dir(&tree)
            .arg("-c")
            .arg("find . | \"$1\" cpio -o -H newc 2>/dev/null | gzip -1 > \"$2\"")
            .arg("cpio")
            .args([busybox, &self.initrd]);
        succeed(&mut command)
    }

    fn make_root(
        &self,
        busybox: &Path,
        modules: &Path,
        version: &str,
        binary: &Path,
    ) -> Result<(), String> {
        let tree = self.folder.join("root");
        fresh(&tree)?;
        let folders =
            "bin sbin usr/bin usr/sbin usr/lib proc sys dev tmp run root etc job lib lib64";
        for folder in folders.split(' ') {
            create(&tree.join(folder))?;
        }
        let world = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(tree.join("tmp"), world).map_err(|error| failed(&tree, &error))?;
        copy(busybox, &tree.join("bin/busybox"))?;
        let names = output(Command::new(busybox).arg("--list"))?;
        for name in names
            .lines()
            .filter(|name| !matches!(*name, "ip" | "sh" | "bash" | "busybox"))
        {
            link("busybox", &tree.join("bin").join(name))?;
        }
        for name in ["bash", "ip", "setpriv", "setfattr", "unshare"] {
            let program = find(name).ok_or_else(|| format!("{name} is missing"))?;
            copy_linked(&program, &tree)?;
            // The guest searches `bin` first, so all programs are there.
            copy(&program, &tree.join("bin").join(name))?;
        }
        link("bash", &tree.join("bin/sh"))?;
        for file in ["passwd", "group", "nsswitch.conf", "os-release"] {
            let from = Path::new("/etc").join(file);
            if from.exists() {
                copy(&from, &tree.join("etc").join(file))?;
            }
        }
        let program = tree.join("usr/bin/fathometer");
        copy(binary, &program)?;
        succeed(Command::new("strip").arg("-S").arg(&program))?;
        copy_libraries(binary, &tree)?;
        let to = tree.join("lib/modules").join(version);
        for part in MORE_MODULES {
            let (from, to) = (
                modules.join("kernel").join(part),
                to.join("kernel").join(part),
            );
            if from.exists() {
                create(to.parent().unwrap_or(&to))?;
                succeed(Command::new("cp").arg("-a").args([&from, &to]))?;
            }
        }
        for file in [
            "modules.builtin",
            "modules.order",
            "modules.builtin.modinfo",
        ] {
            if modules.join(file).exists() {
                copy(&modules.join(file), &to.join(file))?;
            }
        }
        succeed(
            Command::new(busybox)
                .arg("depmod")
                .arg("-b")
                .arg(&tree)
                .arg(version),
        )?;
        write_program(&tree.join("sbin/init"), include_str!("guest/init.sh"))?;
        let study = tree.join("job/study.toml");
        fs::write(&study, include_str!("guest/study.toml")).map_err(|e| failed(&study, &e))?;
        let _ = fs::remove_file(&self.root);
        let mke2fs = find("mke2fs").ok_or("mke2fs is missing")?;
        let mut command = Command::new(mke2fs);
        command
            .args(["-q", "-t", "ext4", "-O", "^metadata_csum", "-d"])
            .arg(&tree)
            .arg(&self.root)
            .arg("600M")
            .stdout(Stdio::null());
        succeed(&mut command)
    }
}

/// Returns the folder of the kernel that the kernel metapackage depends on.
fn kernel_package(packages: &Path) -> Result<PathBuf, String> {
    let newest = downloaded(packages, KERNEL)?;
    let mut command = Command::new("dpkg-deb");
    let depends = output(command.arg("-f").arg(newest).arg("Depends"))?;
    let name = depends
        .split([',', ' '])
        .find(|word| word.starts_with("linux-image-"))
        .ok_or_else(|| format!("{KERNEL} depends on no kernel: {depends}"))?;
    unpacked(packages, name.trim())
}

/// Returns the file of a package. Downloads a missing file.
fn downloaded(packages: &Path, name: &str) -> Result<PathBuf, String> {
    let there = || {
        let entries = fs::read_dir(packages).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).find(|path| {
            let file = path.file_name().and_then(|file| file.to_str());
            file.is_some_and(|file| file.starts_with(&format!("{name}_")) && file.ends_with(".deb"))
        })
    };
    if let Some(path) = there() {
        return Ok(path);
    }
    let mut command = Command::new("apt-get");
    command
        .current_dir(packages)
        .args(["-q", "-o", "APT::Sandbox::User=root", "download", name])
        .stdout(Stdio::null());
    succeed(&mut command)
        .map_err(|error| format!("{error}; run apt-get update if the package lists are missing"))?;
    there().ok_or_else(|| format!("apt-get downloaded no {name}"))
}

/// Returns the folder of a package. Unpacks a missing package.
fn unpacked(packages: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = packages.join(name);
    if !folder.exists() {
        let package = downloaded(packages, name)?;
        let partly = packages.join(format!("{name}.partly"));
        fresh(&partly)?;
        succeed(Command::new("dpkg-deb").arg("-x").args([&package, &partly]))?;
        fs::rename(&partly, &folder).map_err(|error| failed(&folder, &error))?;
    }
    Ok(folder)
}

/// Copies a program to the same path below `tree`, with its shared libraries.
fn copy_linked(program: &Path, tree: &Path) -> Result<(), String> {
    copy(program, &below(tree, program))?;
    copy_libraries(program, tree)
}

fn copy_libraries(program: &Path, tree: &Path) -> Result<(), String> {
    let linked = output(Command::new("ldd").arg(program))?;
    for library in linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let to = below(tree, Path::new(library));
        if !to.exists() {
            copy(Path::new(library), &to)?;
        }
    }
    Ok(())
}

fn below(tree: &Path, path: &Path) -> PathBuf {
    tree.join(path.strip_prefix("/").unwrap_or(path))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(PATHS.iter().map(PathBuf::from));
    folders
        .by_ref()
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn find_below(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().find_map(|path| {
        if path.is_dir() {
            find_below(path, name)
        } else {
            (path.file_name()? == name).then(|| path.clone())
        }
    })
}

fn only_entry(folder: &Path) -> Result<String, String> {
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let name = names.next().and_then(|name| name.into_string().ok());
    name.ok_or_else(|| format!("{} is empty", folder.display()))
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))
}

/// Creates an empty folder; removes an existing one.
fn fresh(folder: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder);
    create(folder)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    create(to.parent().unwrap_or(to))?;
    let _ = fs::remove_file(to);
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| failed(from, &error))
}

fn link(to: &str, path: &Path) -> Result<(), String> {
    let _ = fs::remove_file(path);
    symlink(to, path).map_err(|error| failed(path, &error))
}

fn write_program(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| failed(path, &error))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    match command.stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("{command:?}: {}", output.status)),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
