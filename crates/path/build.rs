//! Lists the profiles of the repository's `paths/` folder, so that a new profile is a new file
//! there and no change here.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../paths")
        .canonicalize()
        .expect("the repository has a folder `paths`");
    println!("cargo::rerun-if-changed={}", folder.display());

    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("`paths` can be listed")
        .map(|entry| entry.expect("`paths` can be listed").path())
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();

    let mut list = String::from("&[\n");
    for file in files {
        let name = file.file_stem().expect("it has an extension");
        list += &format!("    ({name:?}, include_str!({file:?})),\n");
    }
    list += "]\n";
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("shipped.rs"), list).expect("the build's folder can be written");
}
