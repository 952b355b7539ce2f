//! Parses the command line, and loads the pages that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_files::site_folder;
use fathometer_model::Site;

use crate::Failure;

/// The command line.
pub(crate) struct Arguments {
    pub(crate) output: PathBuf,
    pub(crate) list: PathBuf,
    pub(crate) packages: PathBuf,
    pub(crate) pages: usize,
    pub(crate) paths: Vec<String>,
    pub(crate) policies: Vec<String>,
    pub(crate) repeat: usize,
    pub(crate) lanes: usize,
    pub(crate) seed: u64,
    pub(crate) capture: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse() -> Result<Arguments, Failure> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let [output, list, packages, options @ ..] = &words[..] else {
            return Err("usage: predicted_seconds OUTPUT LIST FOLDER [OPTION=VALUE ...]".into());
        };
        let mut parsed = Arguments {
            output: output.into(),
            list: list.into(),
            packages: packages.into(),
            pages: 100,
            paths: list_of("lan,wan,ppp"),
            policies: list_of("h1.1x6,h2c"),
            repeat: 3,
            lanes: 8,
            seed: 1,
            capture: None,
        };
        for option in options {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| format!("{option}: write OPTION=VALUE"))?;
            match name {
                "pages" => parsed.pages = value.parse()?,
                "paths" => parsed.paths = list_of(value),
                "policies" => parsed.policies = list_of(value),
                "repeat" => parsed.repeat = value.parse::<usize>()?.max(1),
                "lanes" => parsed.lanes = value.parse::<usize>()?.max(1),
                "seed" => parsed.seed = value.parse()?,
                "capture" => parsed.capture = Some(value.into()),
                _ => return Err(format!("{name}: there is no such option").into()),
            }
        }
        Ok(parsed)
    }
}

pub(crate) fn list_of(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// A page to retrieve.
pub(crate) struct Page {
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) site: Arc<Site>,
}

/// Selects pages at equal distances in the list, and loads the sites of their packages.
pub(crate) fn pages(arguments: &Arguments) -> Result<Vec<Page>, Failure> {
    let text = std::fs::read_to_string(&arguments.list)?;
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    let count = arguments.pages.min(rows.len());
    let mut sites: BTreeMap<String, Arc<Site>> = BTreeMap::new();
    let mut pages = Vec::new();
    for n in 0..count {
        let row = &rows[n * rows.len() / count];
        let [package, _, page, ..] = row[..] else {
            return Err(format!(
                "{}: a row has no value in the column page",
                arguments.list.display()
            )
            .into());
        };
        let site = match sites.get(package) {
            Some(site) => Arc::clone(site),
            None => {
                let site = Arc::new(site_folder::read(&arguments.packages.join(package))?);
                sites.insert(package.to_owned(), Arc::clone(&site));
                site
            }
        };
        let place = site
            .files
            .iter()
            .find(|file| site_folder::name_of(&file.path) == Path::new(page));
        let target = place
            .map(|file| file.path.clone())
            .ok_or_else(|| format!("{page} is not in the package {package}"))?;
        pages.push(Page {
            package: package.to_owned(),
            target,
            site,
        });
    }
    Ok(pages)
}
