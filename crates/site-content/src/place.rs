//! The place of a file in a site: a unique name, independent of the spelling of the file's URL.

use std::path::Path;

use fathometer_load::url::Url;

use super::source::SiteFile;

/// Returns the host and target of a file. A folder is the root of a host with an empty name.
pub fn location(folder: &Path, file: &SiteFile) -> Option<(String, String)> {
    if file.media_type.is_some() {
        let url = Url::parse(file.path.to_str()?).ok()?;
        return Some((url.authority, url.target));
    }
    let path = file.path.strip_prefix(folder).ok()?.to_str()?;
    let mut target = String::with_capacity(path.len() + 1);
    target.push('/');
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            true => target.push(char::from(byte)),
            false => target.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(("localhost".to_owned(), target))
}

/// Returns the place for the host and target of a URL. Percent-encoding is normalised: encoded bytes that need no
/// encoding are decoded.
pub fn place(authority: &str, target: &str) -> String {
    let mut place = authority.to_ascii_lowercase();
    let mut rest = target;
    while let Some(at) = rest.find('%') {
        let (before, encoded) = rest.split_at(at);
        place.push_str(before);
        let digits = encoded.get(1..3);
        // A sign is not a digit of an encoded byte.
        let digits = digits.filter(|digits| !digits.starts_with('+'));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~!$'()*+,;=:@".contains(&byte) => {
                place.push(char::from(byte));
                rest = &encoded[3..];
            }
            Some(byte) => {
                place.push_str(&format!("%{byte:02X}"));
                rest = &encoded[3..];
            }
            None => {
                place.push('%');
                rest = &encoded[1..];
            }
        }
    }
    place.push_str(rest);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_depend_on_the_way_of_encoding() {
        assert_eq!(place("A.test", "/a%20b%7e%2f%"), "a.test/a%20b~%2F%");
        assert_eq!(place("a", "/%28x%29.gif"), place("a", "/(x).gif"));
        assert_eq!(place("a", "/%+5"), "a/%+5");
    }
}
