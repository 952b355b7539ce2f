//! Schemes by which the kernel reclaims memory from programs and the page cache although enough memory is free.
//!
//! DAMON monitors memory accesses and can page out memory that is not accessed. It is configured through
//! `/sys/kernel/mm/damon` or by the module `damon_reclaim`. Hypervisors enable it in their guests to reclaim memory.
//! Experiments about the page cache must detect it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A scheme by which DAMON reclaims memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    /// The path of the scheme's configuration.
    pub place: PathBuf,
    /// The time without access after which memory is reclaimed.
    pub unused_for: Option<Duration>,
    /// Whether the scheme excludes memory that a program has mapped.
    pub spares_mapped: bool,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_what = match self.spares_mapped {
            true => "the page cache",
            false => "programs and the page cache",
        };
        write!(
            f,
            "DAMON reclaims memory of {of_what} that was not accessed"
        )?;
        match self.unused_for {
            Some(time) => write!(f, " for {} s", time.as_secs()),
            None => write!(f, " recently"),
        }?;
        write!(f, " ({})", self.place.display())
    }
}

/// Returns the active schemes that this user may read.
pub fn schemes() -> Vec<Scheme> {
    schemes_below(Path::new("/sys"))
}

fn schemes_below(sys: &Path) -> Vec<Scheme> {
    let mut found = Vec::new();
    let module = sys.join("module/damon_reclaim/parameters");
    if word(&module.join("enabled")) == "Y" {
        found.push(Scheme {
            unused_for: number(&module.join("min_age")).map(Duration::from_micros),
            spares_mapped: false,
            place: module,
        });
    }
    for daemon in numbered(&sys.join("kernel/mm/damon/admin/kdamonds")) {
        if word(&daemon.join("state")) != "on" {
            continue;
        }
        for context in numbered(&daemon.join("contexts")) {
            let period = number(&context.join("monitoring_attrs/intervals/aggr_us"));
            for scheme in numbered(&context.join("schemes")) {
                if word(&scheme.join("action")) != "pageout" {
                    continue;
                }
                let age = number(&scheme.join("access_pattern/age/min"));
                found.push(Scheme {
                    unused_for: age
                        .zip(period)
                        .and_then(|(age, period)| age.checked_mul(period))
                        .map(Duration::from_micros),
                    spares_mapped: spares_mapped(&scheme),
                    place: scheme,
                });
            }
        }
    }
    found
}

/// Whether a filter of the scheme allows only unmapped memory, and so excludes all mapped memory.
fn spares_mapped(scheme: &Path) -> bool {
    ["filters", "core_filters", "ops_filters"]
        .iter()
        .flat_map(|filters| numbered(&scheme.join(filters)))
        .any(|filter| {
            let is = |name: &str, value: &str| word(&filter.join(name)) == value;
            is("type", "unmapped") && is("matching", "Y") && is("allow", "Y")
        })
}

/// Returns the entries `0`, `1`, … of a directory, in order.
fn numbered(folder: &Path) -> Vec<PathBuf> {
    let count = (0..).map(|number| folder.join(format!("{number}")));
    count.take_while(|path| path.is_dir()).collect()
}

fn word(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

fn number(path: &Path) -> Option<u64> {
    word(path).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn a_scheme_that_pages_out_is_found_while_its_daemon_is_on() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(schemes_below(sys.path()), []);
        let context = "kernel/mm/damon/admin/kdamonds/0/contexts/0";
        let file = |name: &str| format!("{context}/{name}");
        let state = "kernel/mm/damon/admin/kdamonds/0/state";
        write(
            sys.path(),
            &[
                (state, "on"),
                (&file("monitoring_attrs/intervals/aggr_us"), "5000000"),
                (&file("schemes/0/action"), "stat"),
                (&file("schemes/1/action"), "pageout"),
                (&file("schemes/1/access_pattern/age/min"), "12"),
            ],
        );
        let mut scheme = Scheme {
            place: sys.path().join(file("schemes/1")),
            unused_for: Some(Duration::from_secs(60)),
            spares_mapped: false,
        };
        assert_eq!(schemes_below(sys.path()), [scheme.clone()]);
        write(
            sys.path(),
            &[
                (&file("schemes/1/ops_filters/0/type"), "anon"),
                (&file("schemes/1/ops_filters/1/type"), "unmapped"),
                (&file("schemes/1/ops_filters/1/matching"), "Y"),
                (&file("schemes/1/ops_filters/1/allow"), "Y"),
            ],
        );
        scheme.spares_mapped = true;
        let expected = format!(
            "DAMON reclaims memory of the page cache that was not accessed for 60 s ({})",
            scheme.place.display()
        );
        assert_eq!(scheme.to_string(), expected);
        assert_eq!(schemes_below(sys.path()), [scheme]);
        write(sys.path(), &[(state, "off")]);
        assert_eq!(schemes_below(sys.path()), []);
    }

    #[test]
    fn the_module_is_found() {
        let sys = tempfile::tempdir().unwrap();
        let parameters = "module/damon_reclaim/parameters";
        let file = |name: &str| format!("{parameters}/{name}");
        write(
            sys.path(),
            &[(&file("enabled"), "Y"), (&file("min_age"), "120000000")],
        );
        let found = schemes_below(sys.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].unused_for, Some(Duration::from_secs(120)));
        write(sys.path(), &[(&file("enabled"), "N")]);
        assert_eq!(schemes_below(sys.path()), []);
    }
}
