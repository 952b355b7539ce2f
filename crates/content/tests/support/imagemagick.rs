//! ImageMagick, by the C libraries of each format.

use std::fs;
use std::path::Path;
use std::process::Command;

use fathometer_content::image::Limits;

/// More than any image of the tests needs.
pub const LIMITS: Limits = Limits {
    pixels: 4_000_000,
    frames: 100,
};

/// Whether ImageMagick is installed; `./test` installs it.
pub fn is_installed() -> bool {
    let version = Command::new("identify").arg("-version").output();
    let is_installed = version.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).contains("ImageMagick") && output.status.success()
    });
    if !is_installed {
        let is_required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!is_required, "ImageMagick is required and not installed");
        eprintln!("skipped: ImageMagick is not installed");
    }
    is_installed
}

/// The converter: that of the system's package, if there is one, before others on the PATH.
pub fn convert() -> Command {
    let of_package = Path::new("/usr/bin/convert");
    Command::new(match of_package.exists() {
        true => of_package,
        false => Path::new("convert"),
    })
}

/// Makes an image of ImageMagick's own with these arguments.
pub fn make(arguments: &[&str], file: &Path) -> Vec<u8> {
    let status = convert().args(arguments).arg(file).status();
    assert!(status.unwrap().success(), "{arguments:?}");
    fs::read(file).unwrap()
}
