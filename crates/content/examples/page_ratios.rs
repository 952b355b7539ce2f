//! Sizes of deflated HTML pages, as they are and with tags in lower case, as CSV: `page_ratios FILE...`
#![expect(
    clippy::disallowed_methods,
    reason = "the program reads the files that it is given"
)]

use fathometer_content::{Coding, lower_case_tags};

/// Header and trailer of `gzip` around the deflated bytes (RFC 1952, section 2.3).
const GZIP_BYTES: usize = 18;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("page,bytes,deflated_bytes,deflated_lower_case_bytes");
    for path in std::env::args().skip(1) {
        let page = std::fs::read(&path)?;
        let deflated = Coding::Gzip(6).encode(&page)?.len() - GZIP_BYTES;
        // A page whose tags cannot be changed safely has no second figure.
        let lower = match lower_case_tags(&page) {
            Ok(lower) => (Coding::Gzip(6).encode(&lower)?.len() - GZIP_BYTES).to_string(),
            Err(_) => String::new(),
        };
        println!("{path},{},{deflated},{lower}", page.len());
    }
    Ok(())
}
