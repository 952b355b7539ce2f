//! Measures the compression ratio of deflate on real pages, with tags in upper, lower and mixed case, and the PNG sizes
//! of small real GIFs. The run tests the claims N08, N09 and N18 of nielsen97.
//!
//! `real_pages OUTPUT PACKAGE=VERSION=FOLDER ...` reads extracted packages and writes to the folder OUTPUT:
//!
//! - `pages.csv` and `images.csv`: each file, with its sizes;
//! - `run.json` and `replicates.ndjson`: a run of two blocks, for `fathometer report` and `fathometer ledger`.
//!
//! Pages of one project resemble each other, so a replicate of the block `real-pages` is a package and not a page. A
//! replicate of the block `real-images` is a GIF.
//!
//! Needs `giftopnm` and `pnmtopng` (Netpbm), which the paper used.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathometer_analysis::run::{EraInfo, Mode, RunInfo};
use fathometer_content::image::{Format, Image, ImageTreatment, Limits};
use fathometer_content::{Coding, change_tag_case};
use fathometer_model::{CellKey, Instant, PathCertificate, ReplicateRecord, Seed, Validity};
use fathometer_sys::Clock;

/// Maximum number of measured pages per package.
const PAGES: usize = 12;
/// Minimum size of a page in bytes; shorter HTML files are frames and redirections.
const LEAST_PAGE: u64 = 1024;
/// Size limit of a small image in bytes: the paper's "sub-200 byte category".
const SMALL_IMAGE: u64 = 200;
/// Bytes of the header and trailer of `gzip` around the deflated content (RFC 1952, section 2.3).
const GZIP_BYTES: usize = 18;
/// The seed of the random letter case.
const SEED: Seed = Seed(1997);
/// The letter cases of tag and attribute names; the first leaves the page unchanged.
const CASES: [&str; 5] = ["as-is", "lower", "upper", "mixed-names", "mixed-letters"];

type Failure = Box<dyn Error>;

/// An extracted package.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    folder: &'a Path,
}

impl<'a> Package<'a> {
    fn parse(word: &'a str) -> Result<Package<'a>, Failure> {
        let mut parts = word.splitn(3, '=');
        let (Some(name), Some(version), Some(folder)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("{word}: write PACKAGE=VERSION=FOLDER").into());
        };
        Ok(Package {
            name,
            version,
            folder: Path::new(folder),
        })
    }

    /// Returns the regular files of the package with one of these endings and a length in this range, sorted by path.
    fn files(
        &self,
        endings: &[&str],
        lengths: std::ops::Range<u64>,
    ) -> Result<Vec<PathBuf>, Failure> {
        let (mut found, mut folders) = (Vec::new(), vec![self.folder.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let (kind, path) = (entry.file_type()?, entry.path());
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file()
                    && lengths.contains(&entry.metadata()?.len())
                    && path
                        .extension()
                        .is_some_and(|own| endings.iter().any(|ending| own == *ending))
                {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the path of a file inside the package.
    fn inside(&self, path: &Path) -> String {
        let path = path.strip_prefix(self.folder).unwrap_or(path);
        path.display().to_string()
    }
}

/// Returns the page with its tag and attribute names in one of the [`CASES`]; `None` if a tag cannot be distinguished
/// from text without building the tree.
fn in_case(page: &[u8], case: &str, seed: Seed) -> Option<Vec<u8>> {
    let mut draws = (0_u64..).map(|n| seed.draw(n) & 1 == 1);
    let mut heads = || draws.next().unwrap_or_default();
    match case {
        "as-is" => return Some(page.to_vec()),
        "lower" => change_tag_case(page, <[u8]>::make_ascii_lowercase),
        "upper" => change_tag_case(page, <[u8]>::make_ascii_uppercase),
        "mixed-names" => change_tag_case(page, |name| match heads() {
            true => name.make_ascii_uppercase(),
            false => name.make_ascii_lowercase(),
        }),
        _ => change_tag_case(page, |name| {
            for letter in name {
                match heads() {
                    true => letter.make_ascii_uppercase(),
                    false => letter.make_ascii_lowercase(),
                }
            }
        }),
    }
    .ok()
}

fn deflated(page: &[u8]) -> Result<usize, Failure> {
    Ok(Coding::Gzip(6).encode(page)?.len() - GZIP_BYTES)
}

/// Converts the GIF to PNG with the paper's programs; `arguments` are for `pnmtopng`. Returns the size in bytes.
fn by_netpbm(gif: &Path, arguments: &[&str]) -> Result<usize, Failure> {
    let mut first = Command::new("giftopnm")
        .arg(gif)
        .stdout(Stdio::piped())
        .spawn()?;
    let input = first.stdout.take().ok_or("giftopnm has no output")?;
    let second = Command::new("pnmtopng")
        .args(arguments)
        .stdin(input)
        .output()?;
    if !(first.wait()?.success() && second.status.success()) {
        return Err(format!("{}: giftopnm or pnmtopng failed", gif.display()).into());
    }
    Ok(second.stdout.len())
}

/// Converts the GIF to PNG as `fathometer content` does. Returns the size in bytes; `None` for an animation.
fn by_oxipng(gif: &[u8]) -> Result<Option<usize>, Failure> {
    let limits = Limits {
        pixels: 1 << 20,
        frames: 100,
    };
    let image = Image::decode(Format::Gif, gif, limits)?;
    if !ImageTreatment::GifToPng.applies_to(&image) {
        return Ok(None);
    }
    Ok(Some(ImageTreatment::GifToPng.encode(&image)?.file.len()))
}

/// The records, in the order of their creation.
struct Records {
    started: f64,
    lines: Vec<ReplicateRecord>,
}

impl Records {
    fn add(&mut self, block: &str, factor: &str, level: &str, metrics: &[(&str, f64)]) {
        let levels = [(factor, level), ("era", "today")];
        let levels = levels.map(|(factor, level)| (factor.to_owned(), level.to_owned()));
        let cell = CellKey(levels.into());
        let same = self
            .lines
            .iter()
            .filter(|line| line.block == block && line.cell == cell);
        self.lines.push(ReplicateRecord {
            block: block.to_owned(),
            replicate: same.count() as u32,
            seed: SEED.0,
            order: self.lines.len() as u32,
            started: self.started,
            metrics: metrics
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            path: PathCertificate::default(),
            validity: Validity::default(),
            folder: String::new(),
            cell,
        });
    }
}

/// Measures the pages of a package. Writes a line for each page, and one record with the mean ratio for each case.
fn pages(package: &Package<'_>, csv: &mut String, records: &mut Records) -> Result<(), Failure> {
    let files = package.files(&["html", "htm"], LEAST_PAGE..u64::MAX)?;
    if files.len() < PAGES {
        return Ok(());
    }
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for number in 0..PAGES {
        let path = &files[number * files.len() / PAGES];
        let page = fs::read(path)?;
        let name = package.inside(path);
        *csv += &format!("{},{},{name},{}", package.name, package.version, page.len());
        let seed = SEED.stream(&name);
        for case in CASES {
            csv.push(',');
            let Some(variant) = in_case(&page, case, seed) else {
                continue;
            };
            let bytes = deflated(&variant)?;
            *csv += &bytes.to_string();
            let ratio = bytes as f64 / page.len() as f64;
            ratios.entry(case).or_default().push(ratio);
        }
        csv.push('\n');
    }
    for case in CASES {
        // A package is excluded if most of its pages cannot be changed.
        let own = ratios.remove(case).unwrap_or_default();
        if own.len() * 2 >= PAGES {
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            let metrics = [("deflate_ratio", mean), ("pages", own.len() as f64)];
            records.add("real-pages", "tags", case, &metrics);
        }
    }
    Ok(())
}

/// Measures the small GIFs of a package.
fn images(package: &Package<'_>, csv: &mut String, records: &mut Records) -> Result<(), Failure> {
    for path in package.files(&["gif"], 1..SMALL_IMAGE)? {
        let gif = fs::read(&path)?;
        let Some(oxipng) = by_oxipng(&gif)? else {
            continue;
        };
        let sizes = [
            ("netpbm", by_netpbm(&path, &[])?),
            ("netpbm-gamma", by_netpbm(&path, &["-gamma", "0.45455"])?),
            ("oxipng", oxipng),
        ];
        // The global colour table has 2 to the power of (n + 1) colours (GIF89a, section 18).
        let depth = 1 + (gif[10] & 7);
        *csv += &format!(
            "{},{},{},{depth},{}",
            package.name,
            package.version,
            package.inside(&path),
            gif.len()
        );
        for (encoder, bytes) in sizes {
            *csv += &format!(",{bytes}");
            let metrics = [
                ("gif_bytes", gif.len() as f64),
                ("png_bytes", bytes as f64),
                (
                    "larger_as_png_pct",
                    100.0 * f64::from(u8::from(bytes > gif.len())),
                ),
            ];
            records.add("real-images", "encoder", encoder, &metrics);
        }
        csv.push('\n');
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let [_, output, packages @ ..] = words.as_slice() else {
        return Err("usage: real_pages OUTPUT PACKAGE=VERSION=FOLDER ...".into());
    };
    let output = Path::new(output);
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    let mut records = Records {
        started,
        lines: Vec::new(),
    };
    let mut of_pages = format!("package,version,page,bytes,{}\n", CASES.join(","));
    let mut of_images = "package,version,image,depth,gif,netpbm,netpbm-gamma,oxipng\n".to_owned();
    let mut data = BTreeMap::new();
    for word in packages {
        let package = Package::parse(word)?;
        pages(&package, &mut of_pages, &mut records)?;
        images(&package, &mut of_images, &mut records)?;
        data.insert(
            format!("package {}", package.name),
            package.version.to_owned(),
        );
    }
    let command = ["real_pages".to_owned()]
        .into_iter()
        .chain(words[1..].iter().cloned());
    let info = RunInfo {
        format: RunInfo::FORMAT,
        study: "nielsen97".to_owned(),
        title: "Real pages and real small images: bytes, without a network".to_owned(),
        mode: Mode::Full,
        command: command.collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: None,
        study_files: BTreeMap::new(),
        data,
        machine: BTreeMap::new(),
        seed: SEED,
        started,
        finished: Some(clock.realtime_of(clock.now()).as_secs_f64()),
        replicates_planned: Some(records.lines.len() as u64),
        eras: vec![EraInfo {
            name: "today".to_owned(),
            description: "File sizes, which do not depend on TCP.".to_owned(),
            limits: Vec::new(),
            settings: Vec::new(),
        }],
        paths: Vec::new(),
        servers: Vec::new(),
        notes: vec![
            "a replicate of the block real-pages is a package (the mean of its pages); a replicate of the block real-images is a file"
                .to_owned(),
        ],
        left_out: Vec::new(),
        stopping: None,
        share: None,
        machines: Vec::new(),
    };
    fs::create_dir_all(output)?;
    fs::write(output.join("pages.csv"), of_pages)?;
    fs::write(output.join("images.csv"), of_images)?;
    let json = serde_json::to_string_pretty(&info)?;
    fs::write(output.join("run.json"), json + "\n")?;
    let mut lines = String::new();
    for record in &records.lines {
        lines += &(serde_json::to_string(record)? + "\n");
    }
    fs::write(output.join("replicates.ndjson"), lines)?;
    Ok(())
}
