//! `cargo xtask bench content`: compression on the fly by the origin against nginx's gzip and brotli, and the
//! encoders of `fathometer content` against the programs gzip, brotli and zstd.
//!
//! Both servers answer the same client, one request at a time, at equal levels. nginx has no cache of compressed
//! content. The cache of our server is smaller than all compressed files together. The client requests the files one
//! after another, so each file is evicted before it is requested again. The server's own count must confirm that
//! nothing was reused. The cost is CPU time (user and system) of the server per response.
//!
//! Each program compresses all files in one process, which also reads and writes them. For `fathometer content`,
//! the CPU time is the time that its report states for a treatment, without reading and decoding.
//!
//! All measurements alternate in rounds, and a ratio is the median of the ratios within each round.

mod programs;
mod served;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fathometer_sys::sched;

use self::served::{Served, Spent};
use super::trace::{Scratch, build, median};

/// Rounds of each measurement, unless an argument states them.
const ROUNDS: usize = 5;
/// Files of the site.
const FILES: usize = 100;
/// Bytes of each file: a page, short enough that the origin serves it from memory.
const SIZE: usize = 48 * 1024;
/// Requests for each file in a round; many, because the kernel counts CPU time in hundredths of a second.
const PASSES: usize = 8;

/// A coding and its level on both servers, and the upper bound of our CPU time per compressed response relative to
/// nginx's.
#[derive(Debug, Clone, Copy)]
struct Setting {
    coding: &'static str,
    level: u32,
    most: f64,
}

/// The Brotli encoder of nginx is in C, and our encoder is in Rust.
const SETTINGS: [Setting; 6] = [
    Setting::of("gzip", 1, 1.0),
    Setting::of("gzip", 6, 1.0),
    Setting::of("gzip", 9, 1.0),
    Setting::of("br", 1, 1.5),
    Setting::of("br", 4, 1.5),
    Setting::of("br", 6, 1.5),
];

impl Setting {
    const fn of(coding: &'static str, level: u32, most: f64) -> Setting {
        Setting {
            coding,
            level,
            most,
        }
    }

    /// The setting as a part of a file name, as in `gzip-1`.
    fn name(self) -> String {
        format!("{}-{}", self.coding, self.level)
    }
}

/// Measures, prints tables, and fails when a target is missed.
pub(crate) fn run(
    root: &Path,
    program: Option<&Path>,
    rounds: Option<usize>,
) -> Result<ExitCode, String> {
    let rounds = rounds.unwrap_or(ROUNDS).max(1);
    let ours = match program {
        Some(program) => std::path::absolute(program)
            .map_err(|error| format!("{}: {error}", program.display()))?,
        None => build(root)?,
    };
    let scratch = Scratch::new()?;
    let site = write_site(scratch.path())?;
    let is_met = on_the_fly(&ours, scratch.path(), &site, rounds)?;
    let are_met = programs::measure(&ours, scratch.path(), &site, rounds)?;
    Ok(match is_met && are_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Compares the servers.
fn on_the_fly(ours: &Path, folder: &Path, site: &Path, rounds: usize) -> Result<bool, String> {
    let processors = sched::processors().map_err(|error| error.to_string())?;
    let &[for_server, for_client, ..] = processors.as_slice() else {
        return Err("this needs two processors: one for the client, one for the server".to_owned());
    };
    println!(
        "servers on processor {for_server}, client on processor {for_client}, {rounds} rounds, {FILES} files of {SIZE} \
         bytes\n\n{:10}{:>14}{:>14}{:>9}{:>14}{:>14}",
        "", "ours CPU", "nginx CPU", "ratio", "ours bytes", "nginx bytes"
    );
    let mut servers = Vec::new();
    for setting in SETTINGS {
        servers.push([
            Served::ours(ours, folder, site, setting, for_server)?,
            Served::nginx(folder, site, setting, for_server)?,
        ]);
    }
    let mut rows: Vec<Vec<[Spent; 2]>> = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (row, [ours, nginx]) in rows.iter_mut().zip(&servers) {
            let spent = |server: &Served| server.measure(folder, for_client, FILES, PASSES);
            row.push([spent(ours)?, spent(nginx)?]);
        }
    }
    let mut all_met = true;
    for (setting, row) in SETTINGS.iter().zip(&rows) {
        let figure = |of: fn(&[Spent; 2]) -> f64| median(row.iter().map(of).collect());
        let ratio = figure(|[ours, nginx]| ours.processor / nginx.processor);
        let met = ratio <= setting.most;
        all_met &= met;
        println!(
            "{:10}{:>11.1} µs{:>11.1} µs{ratio:>9.2}{:>14.0}{:>14.0}  at most {}: {}",
            format!("{} {}", setting.coding, setting.level),
            1e6 * figure(|[ours, _]| ours.processor),
            1e6 * figure(|[_, nginx]| nginx.processor),
            figure(|[ours, _]| ours.bytes),
            figure(|[_, nginx]| nginx.bytes),
            setting.most,
            if met { "met" } else { "MISSED" }
        );
    }
    for [ours, _] in servers {
        ours.check_nothing_was_reused()?;
    }
    Ok(all_met)
}

/// Writes pages of words with markup, the same in every run and different from each other.
fn write_site(folder: &Path) -> Result<PathBuf, String> {
    let site = folder.join("site");
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(&site)?;
        for folder in [folder, &site] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        }
        for file in 0..FILES {
            fs::write(site.join(format!("{file}.html")), page(file as u32))?;
        }
        Ok(())
    };
    write().map_err(|error| format!("failed to write {}: {error}", site.display()))?;
    Ok(site)
}

fn page(file: u32) -> Vec<u8> {
    let mut state = 0x9e37_79b9 ^ file;
    let mut draw = move |most: u32| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state % most
    };
    let mut page = format!("<!DOCTYPE html>\n<title>{file}</title>\n");
    while page.len() < SIZE {
        page.push_str(&format!("<p class=\"c{}\">", draw(20)));
        for _ in 0..12 {
            // Few words are frequent; most words are rare.
            let most = [30, 300, 3000][draw(3) as usize];
            let word = draw(most).wrapping_mul(0x9e37_79b9);
            let letters =
                (0..3 + word % 6).map(|n| char::from(b'a' + (word >> (4 * n) & 15) as u8));
            page.extend(letters);
            page.push(' ');
        }
        page.push_str("</p>\n");
    }
    page.truncate(SIZE);
    page.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_size_and_differ() {
        assert_eq!(page(0).len(), SIZE);
        assert_eq!(page(7), page(7));
        assert_ne!(page(0), page(1));
    }
}
