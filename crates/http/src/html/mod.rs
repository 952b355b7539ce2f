//! Finding the files embedded in a page while its HTML arrives.
//!
//! [`Scanner`] takes HTML in pieces of any size and yields references to embedded files in document
//! order: no tree, no copy of the document, memory bounded whatever the input. [`Resolver`] turns a
//! reference into a request target on the page's own origin, or says that it leads elsewhere.
//!
//! Not done here: style sheets are not searched for further references, scripts are not run,
//! frames are references and not scanned themselves, and a file named twice is yielded twice (the
//! caller knows best what it has asked for already).
//!
//! ```
//! use fathometer_http::html::{Resolution, Resolver, Scanner};
//!
//! let mut scanner = Scanner::new();
//! let resolver = Resolver::new("example.org", "/news/index.html");
//! let mut input: &[u8] = b"<BODY><IMG alt=x SRC='logo.gif?a=1&amp;b=2'>";
//! let reference = scanner.scan(&mut input).unwrap();
//! let target = resolver.resolve(reference.value);
//! assert_eq!(target, Resolution::Target("/news/logo.gif?a=1&b=2".into()));
//! assert!(scanner.scan(&mut input).is_none() && input.is_empty());
//! ```

mod resolve;
mod scanner;

pub use resolve::{Resolution, Resolver};
pub use scanner::{LONGEST_VALUE, Reference, ReferenceKind, Scanner};

/// Scans and resolves any bytes, once whole and once cut in two, and panics when the two differ or
/// when a target comes out that could not stand in a request line. An entry point for fuzzing: the
/// first octet says where to cut.
pub fn fuzz(data: &[u8]) {
    let Some((&cut, html)) = data.split_first() else {
        return;
    };
    let cut = usize::from(cut).min(html.len());
    let whole = targets(&[html]);
    assert_eq!(whole, targets(&[&html[..cut], &html[cut..]]));
    for resolution in whole {
        if let Resolution::Target(target) = resolution {
            assert!(target.starts_with('/'), "{target:?}");
            assert!(target.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }
}

fn targets(pieces: &[&[u8]]) -> Vec<Resolution> {
    let mut scanner = Scanner::new();
    let mut resolver = Resolver::new("example.org", "/a/b.html");
    let mut targets = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(reference) = scanner.scan(&mut input) {
            match reference.kind {
                ReferenceKind::Base => resolver.rebase(reference.value),
                _ => targets.push(resolver.resolve(reference.value)),
            }
        }
    }
    targets
}
