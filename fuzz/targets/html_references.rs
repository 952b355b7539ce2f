//! The HTML reference scanner: any split of a document gives the same references, and every resolved reference
//! is valid in a request line.

#![no_main]

use fathometer_fuzz::Pieces;
use fathometer_http::html::{ReferenceKind, Resolution, Resolver, Scanner};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let pieces = Pieces::new(input);
    let whole = references(std::iter::once(pieces.bytes));
    let cut = references(pieces.cut(40));
    assert_eq!(whole, cut, "a split changed what was found");
    for resolution in &whole {
        if let Resolution::Target(target) = resolution {
            assert!(target.starts_with('/'), "{target:?}");
            assert!(
                target.bytes().all(|byte| byte.is_ascii_graphic()),
                "{target:?}"
            );
        }
    }
});

fn references<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Resolution> {
    let mut scanner = Scanner::new();
    let mut resolver = Resolver::new("example.org", "/a/b.html");
    let mut found = Vec::new();
    for mut piece in pieces {
        while let Some(reference) = scanner.scan(&mut piece) {
            match reference.kind {
                ReferenceKind::Base => resolver.rebase(reference.value),
                _ => found.push(resolver.resolve(reference.value)),
            }
        }
        assert!(piece.is_empty(), "input was left over");
    }
    found
}
