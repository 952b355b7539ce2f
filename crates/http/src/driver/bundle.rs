//! Requests for all files at once: as an object package or an archive.

use std::fmt;

use super::kind::FileKind;
use fathometer_package as package;

/// The format in which all files are requested at once.
///
/// As text: `package`, `package-v1`, `package-delta`, `tar`, `tar-whole`, `zip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bundle {
    /// An object package of this version: each file is used when its last byte has arrived.
    Package(package::Version),
    /// An object package of version 2 without the files that the client has, as listed in `Package-Have`.
    PackageDelta,
    /// A tar archive; each file is used when its last byte has arrived.
    Tar,
    /// A tar archive that is unpacked when it is complete.
    TarWhole,
    /// A zip archive. Its directory is at its end, so it is unpacked when it is complete.
    Zip,
}

impl Bundle {
    /// All formats. If one name starts with another name, the longer name comes first.
    const NAMES: [(&'static str, Bundle); 6] = [
        ("package-delta", Bundle::PackageDelta),
        ("package-v1", Bundle::Package(package::Version::One)),
        ("package", Bundle::Package(package::Version::Two)),
        ("tar-whole", Bundle::TarWhole),
        ("tar", Bundle::Tar),
        ("zip", Bundle::Zip),
    ];

    /// Parses the name of a bundle at the start of a text. Returns the bundle and the text after the name.
    pub(super) fn strip(text: &str) -> Option<(Bundle, &str)> {
        let mut names = Bundle::NAMES.into_iter();
        names.find_map(|(name, bundle)| Some((bundle, text.strip_prefix(name)?)))
    }

    /// Whether the bundle is an object package, which may contain files in a content coding.
    pub const fn is_package(self) -> bool {
        matches!(self, Bundle::Package(_) | Bundle::PackageDelta)
    }

    /// Returns the media type of the request.
    const fn media_type(self) -> &'static str {
        match self {
            Bundle::Package(version) => version.content_type(),
            Bundle::PackageDelta => package::Version::Two.content_type(),
            Bundle::Tar | Bundle::TarWhole => "application/x-tar",
            Bundle::Zip => "application/zip",
        }
    }

    /// Returns the value of `Accept` that prefers the bundle to `otherwise`, the media types of a request without a
    /// bundle.
    pub(super) fn accept(self, otherwise: Option<&str>) -> String {
        let mut accept = self.media_type().to_owned();
        for range in otherwise.unwrap_or("*/*").split(',') {
            let range = range.trim();
            let weight = match range.contains(";q=") {
                true => "",
                false => ";q=0.5",
            };
            accept.push_str(&format!(", {range}{weight}"));
        }
        accept
    }

    /// Whether a response of this type is the bundle. The version parameter is ignored, because a package contains its
    /// version number.
    pub(super) fn matches_content_type(self, content_type: Option<&str>) -> bool {
        let essence = |text: &'_ str| -> String {
            let essence = text.split(';').next().unwrap_or_default();
            essence.trim().to_ascii_lowercase()
        };
        content_type.is_some_and(|given| essence(given) == essence(self.media_type()))
    }
}

/// The format used in the text of a [`Policy`](super::Policy).
impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Bundle::NAMES.iter();
        let named = names.find(|(_, bundle)| bundle == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

/// Returns the kind of a file by the extension of its name, because bundles do not always give a media type.
pub(super) fn kind_by_name(name: &str) -> FileKind {
    let path = name.split('?').next().unwrap_or(name);
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "gif" | "png" | "jpg" | "jpeg" | "webp" | "avif" | "svg" | "ico" => FileKind::Image,
        "css" => FileKind::StyleSheet,
        "js" | "mjs" => FileKind::LaterScript,
        "woff" | "woff2" | "ttf" | "otf" => FileKind::Font,
        "html" | "htm" => FileKind::Frame,
        _ => FileKind::Other,
    }
}

/// Files that are retrieved together but are not a page; no HTML names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageList {
    /// The target of the request for a bundle of these files: the folder that contains them.
    pub folder: String,
    /// The targets of the files, in the order of the requests. Targets beyond [`MOST_FILES`](super::MOST_FILES)
    /// are left out and counted.
    pub files: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_the_highest_quality_in_accept() {
        let package = Bundle::Package(package::Version::One);
        assert_eq!(
            package.accept(Some("text/html, image/gif, */*;q=0.3")),
            "application/vnd.fathometer.object-package;version=1, text/html;q=0.5, \
             image/gif;q=0.5, */*;q=0.3"
        );
        assert_eq!(Bundle::Tar.accept(None), "application/x-tar, */*;q=0.5");
    }

    #[test]
    fn a_bundle_is_recognised_by_its_media_type() {
        let package = Bundle::Package(package::Version::One);
        let given = Some("Application/Vnd.Fathometer.Object-Package ; version=2");
        assert!(
            package.matches_content_type(given) && Bundle::PackageDelta.matches_content_type(given)
        );
        assert!(Bundle::TarWhole.matches_content_type(Some("application/x-tar")));
        for other in [
            None,
            Some(""),
            Some("text/html"),
            Some("application/x-tarfoo"),
        ] {
            assert!(!Bundle::Tar.matches_content_type(other), "{other:?}");
        }
    }
}
