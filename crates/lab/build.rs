//! Embeds the data folders (papers, paths, eras, servers) in the library. So a new paper, path profile, era or server
//! requires no change of Rust code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const FOLDERS: [&str; 4] = ["papers", "paths", "eras", "servers"];
const KINDS: [&str; 4] = ["toml", "csv", "conf", "md"];

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is two levels above this crate");
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let mut code = String::from("pub(crate) static FILES: &[(&str, &str)] = &[\n");
    for file in files {
        let name = file
            .strip_prefix(&root)
            .expect("the file is below the root");
        writeln!(
            code,
            "    ({:?}, include_str!({:?})),",
            name.to_str().expect("data files have plain names"),
            file.to_str().expect("data files have plain names")
        )
        .expect("a String takes any text");
    }
    code.push_str("];\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("embedded.rs");
    fs::write(out, code).expect("cargo's own output folder is writable");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .and_then(|e| e.to_str())
            .is_some_and(|e| KINDS.contains(&e))
        {
            files.push(path);
        }
    }
}
