//! Reads the responses of an HTTP archive.

use std::path::PathBuf;

use fathometer_workload::fault::Fault;
use fathometer_workload::har::{self, Body};

use super::{Held, SiteFile};
use crate::Say;

/// Reads the contents of the archive. Missing contents are reported through `say`.
pub fn read(text: &str, max_file: u64, say: Say) -> Result<Held, Fault> {
    let mut held = Held::default();
    har::bodies(text, |response| {
        let url = response.url;
        match response.body {
            Body::NoFile(_) => held.skipped += 1,
            Body::Missing(why) => held.add(&url, Err(why), say),
            Body::Whole(content) if content.len() as u64 > max_file => {
                let why = format!("it is longer than {max_file} bytes (--max-file)");
                held.add(&url, Err(why), say);
            }
            Body::Whole(content) => {
                let file = SiteFile {
                    path: PathBuf::from(&url),
                    content,
                    media_type: Some(response.media_type),
                };
                held.add(&url, Ok(file), say);
            }
        }
    })?;
    Ok(held)
}
