//! Finds the files embedded in a page while its HTML arrives.
//!
//! [`Scanner`] takes HTML in pieces of any size and returns references to embedded files in document order. It
//! builds no tree, does not copy the document, and its memory is bounded for any input. [`Resolver`] turns a
//! reference into a request target on the page's own origin, or reports that it belongs to another origin.
//!
//! Not implemented: style sheets are not searched for further references, scripts are not run, and the
//! documents of frames are not scanned. A file that is named twice is returned twice, because the caller keeps
//! the list of files that were requested.
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

/// An entry point for fuzzing: scans and resolves arbitrary bytes, once as a whole and once in two pieces. The first
/// byte selects the position of the cut. Panics if the results differ, or if a resolved target is not valid in a
/// request line.
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
