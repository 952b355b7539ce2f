//! Alternative media types of an image, in files with the same name in the same folder: `x.webp` and `x.avif` next to
//! `x.png`.

use std::cmp::Reverse;

use fathometer_model::Instant;

use crate::message::fields;
use crate::origin::conditions::Lines;
use crate::origin::encoding::thousandths;
use crate::origin::packages::quality_of;
use crate::origin::store::Lookup;
use crate::origin::target::encoded;
use crate::origin::{Origin, Source};

/// The types of images that may have alternatives.
const ORIGINALS: [&str; 3] = ["image/png", "image/jpeg", "image/gif"];

/// The alternative types and the extensions of their files.
const ALTERNATIVES: [(&str, &str); 2] = [("image/webp", "webp"), ("image/avif", "avif")];

/// Whether content of this type may have alternatives. An alternative may be added later, so the response always varies
/// by `Accept`.
pub(super) fn may_have_alternatives(content_type: &[u8]) -> bool {
    ORIGINALS
        .iter()
        .any(|original| original.as_bytes() == content_type)
}

/// The quality of a type that the client lists; `None` if the client does not list the type, or refuses it. Wildcards
/// are ignored, because clients without support for the alternative types also send `image/*` and `*/*`.
fn named(accept: &Lines<'_>, content_type: &str) -> Option<u16> {
    let element = |element: &[u8]| {
        let mut parts = element.split(|&byte| byte == b';').map(fields::trim);
        let name = parts.next()?;
        name.eq_ignore_ascii_case(content_type.as_bytes())
            .then(|| match parts.next() {
                None => 1000,
                Some([b'q' | b'Q', b'=', value @ ..]) => thousandths(value).unwrap_or(0),
                // A range with a parameter would select a different representation.
                Some(_) => 0,
            })
    };
    let quality = accept.iter().flat_map(fields::list).find_map(element)?;
    Some(quality).filter(|&quality| quality > 0)
}

impl Origin {
    /// Selects the alternative of an image with the highest quality; among equal qualities, the smallest. Returns the
    /// alternative and its address; `None` if the image itself is selected.
    pub(super) fn better_image(
        &self,
        path: &[u8],
        image: &Source,
        accept: &Lines<'_>,
        now: Instant,
    ) -> Option<(Source, Box<str>)> {
        let stem = &path[..path.iter().rposition(|&byte| byte == b'.')?];
        let plain = self.plain(image);
        let of = self.describe_selected(&plain);
        let rank = (quality_of(accept, of.content_type), Reverse(of.length));
        let better = ALTERNATIVES
            .into_iter()
            .filter_map(|(content_type, extension)| {
                let quality = named(accept, content_type)?;
                let path = [stem, b".", extension.as_bytes()].concat();
                let source = match (self.index.file(&path), &self.store) {
                    (Some(file), _) => Source::Indexed(file),
                    (None, Some(store)) => match store.find(&path, now) {
                        Lookup::Found(resource) => Source::Stored(resource),
                        _ => return None,
                    },
                    (None, None) => return None,
                };
                let plain = self.plain(&source);
                let of = self.describe_selected(&plain);
                let rank = (quality, Reverse(of.length));
                (of.content_type == content_type.as_bytes()).then_some((rank, source, path))
            });
        better
            .filter(|(other, ..)| *other > rank)
            .max_by_key(|(rank, ..)| *rank)
            .map(|(_, source, path)| (source, encoded(&path).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_that_the_client_names_are_chosen() {
        let table = [
            ("", None),
            ("image/*", None),
            ("*/*", None),
            ("image/webp", Some(1000)),
            ("image/avif, IMAGE/WEBP;q=0.8", Some(800)),
            ("image/webp;q=0", None),
            ("image/webp;q=x", None),
            ("image/webp;profile=a", None),
            ("image/webpx", None),
        ];
        for (accept, expected) in table {
            let mut lines = Lines::default();
            assert!(lines.push(accept.as_bytes()));
            assert_eq!(named(&lines, "image/webp"), expected, "{accept:?}");
        }
    }
}
