//! Fetches a list of URLs, each URL once.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use fathometer_load::url::Url;
use fathometer_sys::{Clock, Interrupt};
use fathometer_tls::ClientSettings;

use super::retrieve::{Limits, retrieve};
use super::{Held, SiteFile};
use crate::{Failure, Options, TlsOptions, usage};

/// The maximum number of URLs in a list.
const MOST_URLS: usize = 10_000;

/// Fetches all URLs of the list. The list has one URL per line; blank lines and comments (`#`) are ignored. A URL that
/// fails is reported on stderr. If a line is not a URL, nothing is fetched.
pub fn fetch(text: &str, options: &Options, tls: TlsOptions<'_>) -> Result<Held, Failure> {
    let urls = parse(text).map_err(|why| usage(format!("{}: {why}", options.site.display())))?;
    let clock = Clock::start();
    let tls = match urls.iter().any(|(_, url)| url.secure) {
        true => Some(tls_settings(tls, clock)?),
        false => None,
    };
    let interrupt = Interrupt::install()?;
    let mut held = Held::default();
    let mut left = options.max_fetch;
    for (text, url) in urls {
        if interrupt.is_raised() {
            return Err("interrupted: nothing was treated".into());
        }
        let limits = Limits {
            bytes: options.max_file.min(left),
            time: options.timeout,
        };
        let fetched = match left {
            0 => Err(format!(
                "the limit of {} bytes was reached before this URL (--max-fetch)",
                options.max_fetch
            )),
            _ => retrieve(&url, tls.as_ref(), limits, clock),
        };
        let file = fetched.map(|fetched| {
            left = left.saturating_sub(fetched.content.len() as u64);
            SiteFile {
                path: PathBuf::from(text),
                content: fetched.content,
                media_type: Some(fetched.media_type),
            }
        });
        held.add(text, file, options.say);
    }
    Ok(held)
}

fn parse(text: &str) -> Result<Vec<(&str, Url)>, String> {
    let mut urls = Vec::new();
    let mut known = HashSet::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || !known.insert(line) {
            continue;
        }
        let url = Url::parse(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        urls.push((line, url));
        if urls.len() > MOST_URLS {
            return Err(format!("more than {MOST_URLS} URLs"));
        }
    }
    match urls.is_empty() {
        true => Err("it has no URLs; use one URL per line".to_owned()),
        false => Ok(urls),
    }
}

fn tls_settings(tls: TlsOptions<'_>, clock: Clock) -> Result<Arc<ClientSettings>, Failure> {
    let mut options = tls(clock)?;
    options.alpn = vec![b"http/1.1".to_vec()];
    Ok(ClientSettings::new(options).map_err(|error| error.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_url_is_fetched_once_and_a_bad_line_is_named() {
        let urls = parse("# a list\n\n http://a/x \nhttps://b\nhttp://a/x\n").unwrap();
        let targets: Vec<_> = urls.iter().map(|(_, url)| url.target.as_str()).collect();
        assert_eq!(targets, ["/x", "/"]);
        assert!(
            parse("http://a\nftp://b")
                .unwrap_err()
                .starts_with("line 2: ")
        );
        assert!(parse("# nothing\n").unwrap_err().contains("no URL"));
    }
}
