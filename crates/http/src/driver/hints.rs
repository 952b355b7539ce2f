//! Preloads: `Link` fields (RFC 8288) that name files which the page will need. They are part of a 103 (Early
//! Hints, RFC 8297) or of the final head.

use super::kind::FileKind;

/// Returns the references and kinds of the preloads in a `Link` field (`rel=preload`, and `rel=modulepreload` for
/// scripts). Malformed parts are skipped.
pub(super) fn preloads(value: &str) -> impl Iterator<Item = (&str, FileKind)> {
    split_outside(value, b',').filter_map(|link| {
        let link = link.trim();
        let (reference, parameters) = link.strip_prefix('<')?.split_once('>')?;
        let (mut preload, mut kind) = (false, FileKind::Other);
        for parameter in split_outside(parameters, b';') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "rel" => {
                    for relation in value.split_ascii_whitespace() {
                        preload |= relation.eq_ignore_ascii_case("preload");
                        if relation.eq_ignore_ascii_case("modulepreload") {
                            (preload, kind) = (true, FileKind::LaterScript);
                        }
                    }
                }
                "as" => kind = FileKind::of_destination(value),
                _ => {}
            }
        }
        preload.then_some((reference.trim(), kind))
    })
}

/// Returns the parts of `text` between separators that are neither in quotes nor in angle brackets.
fn split_outside(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let part = rest?;
        let (mut quoted, mut bracketed, mut escaped) = (false, false, false);
        for (place, byte) in part.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' if !bracketed => quoted = !quoted,
                b'<' if !quoted => bracketed = true,
                b'>' if !quoted => bracketed = false,
                _ if byte == separator && !quoted && !bracketed => {
                    rest = Some(&part[place + 1..]);
                    return Some(&part[..place]);
                }
                _ => {}
            }
        }
        rest = None;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn preloads_are_found_among_links() {
        let value = "</a.css>; rel=preload; as=style, <b.js>;rel=\"x preload\";as=\"script\", \
                     </c?x=1,2;3>; rel=next, </d.woff2>; crossorigin; as=font; rel=PRELOAD,\
                     </e>; title=\"a, <b>; rel=preload\"; rel=icon, </m.js>; rel=modulepreload, junk, <x";
        let found: Vec<_> = preloads(value).collect();
        let expected = [
            ("/a.css", FileKind::StyleSheet),
            ("b.js", FileKind::Script),
            ("/d.woff2", FileKind::Font),
            ("/m.js", FileKind::LaterScript),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn any_field_is_read_without_a_panic(value in "[<>;,=\"\\\\ a-zé]{0,60}") {
            for (reference, _) in preloads(&value) {
                prop_assert!(value.contains(reference));
            }
        }
    }
}
