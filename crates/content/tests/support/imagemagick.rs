//! Runs ImageMagick, which uses the C library of each format.

use std::fs;
use std::path::Path;
use std::process::Command;

use fathometer_content::image::Limits;

/// Limits that no test image exceeds.
pub const LIMITS: Limits = Limits {
    pixels: 4_000_000,
    frames: 100,
};

/// Returns whether ImageMagick is installed; `./test` installs it.
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

/// Returns the command `convert`: from the system's package if it is installed, otherwise the first one in the PATH.
pub fn convert() -> Command {
    let of_package = Path::new("/usr/bin/convert");
    Command::new(match of_package.exists() {
        true => of_package,
        false => Path::new("convert"),
    })
}

/// Creates an image with ImageMagick from these arguments. The image is the same in each run.
pub fn make(arguments: &[&str], file: &Path) -> Vec<u8> {
    // ImageMagick writes gamma and chromaticities, which WebP cannot store and AVIF stores in another form.
    let plain = ["-seed", "7", "-define", "png:exclude-chunks=all"];
    let status = convert().args(plain).args(arguments).arg(file).status();
    assert!(status.unwrap().success(), "{arguments:?}");
    fs::read(file).unwrap()
}

/// Arguments for [`make`]: photographs, drawings, grey and transparent images, with odd numbers of pixels.
pub const SOURCES: [(&str, &[&str]); 8] = [
    (
        "photograph.png",
        &["-size", "151x109", "plasma:fractal", "-depth", "8"],
    ),
    (
        "photograph.jpg",
        &["-size", "120x90", "plasma:fractal", "-quality", "95"],
    ),
    (
        "colours.png",
        &["-size", "75x61", "plasma:lime-magenta", "-depth", "8"],
    ),
    (
        "grey.jpg",
        &["-size", "97x61", "plasma:fractal", "-colorspace", "Gray"],
    ),
    (
        "drawing.gif",
        &[
            "-size",
            "120x81",
            "xc:white",
            "-fill",
            "red",
            "-draw",
            "circle 60,40 60,5",
            "-colors",
            "16",
        ],
    ),
    (
        "transparent.gif",
        &[
            "-size",
            "63x48",
            "xc:none",
            "-fill",
            "navy",
            "-draw",
            "roundrectangle 5,5 50,40 9,9",
            "-colors",
            "200",
        ],
    ),
    (
        "grey-alpha.png",
        &[
            "-size",
            "60x60",
            "radial-gradient:black-white",
            "-alpha",
            "copy",
            "-depth",
            "8",
        ],
    ),
    (
        "alpha.png",
        &[
            "-size",
            "60x57",
            "plasma:red-blue",
            "(",
            "-size",
            "60x57",
            "radial-gradient:white-black",
            ")",
            "-alpha",
            "off",
            "-compose",
            "CopyOpacity",
            "-composite",
            "-depth",
            "8",
        ],
    ),
];
