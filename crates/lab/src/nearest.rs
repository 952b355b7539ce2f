//! Finds the known name that is nearest to an unknown name, for error messages.

use std::fmt::{Display, Write as _};

/// The largest edit distance between a misspelt word and its suggestion, as a fraction of the length of the longer
/// word.
const FARTHEST: f64 = 0.4;

/// Returns the known name with the smallest Damerau–Levenshtein distance to `name`; `None` if all distances are too
/// large.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &str| {
        let (one, other) = (name.to_lowercase(), other.to_lowercase());
        strsim::osa_distance(&one, &other)
    };
    known
        .into_iter()
        .map(|other| (distance(other), other))
        .filter(|(distance, other)| {
            let longer = name.chars().count().max(other.chars().count());
            *distance as f64 <= FARTHEST * longer as f64
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// Returns `; did you mean "lan"?`, or an empty text.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |other| format!("; did you mean {other:?}?"))
}

/// Returns the text of a serde error. If the text names an unknown key or value and the expected names in backquotes,
/// appends the nearest expected name.
pub fn with_suggestion(error: &(impl Display + ?Sized)) -> String {
    let message = error.to_string();
    let mut text = message.trim_end().to_owned();
    let is_unknown = ["unknown field `", "unknown variant `"];
    let start = is_unknown.iter().find_map(|words| message.find(*words));
    if let Some(start) = start {
        let mut quoted = message[start..].split('`').skip(1).step_by(2);
        let unknown = quoted.next().unwrap_or_default();
        if let Some(other) = nearest(unknown, quoted) {
            let _ = write!(text, "; did you mean `{other}`?");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_distant_one_is_not() {
        let known = ["nodelay", "quickack", "policy", "path"];
        assert_eq!(nearest("polcy", known), Some("policy"));
        assert_eq!(nearest("no_delay", known), Some("nodelay"));
        assert_eq!(nearest("Path", known), Some("path"));
        assert_eq!(nearest("congestion", known), None);
        assert_eq!(suggestion("polcy", known), "; did you mean \"policy\"?");
        assert_eq!(suggestion("x", known), "");
    }

    #[test]
    fn an_unknown_field_error_names_the_nearest_key() {
        let message = "unknown field `weeker`, expected one of `holds`, `weaker`\n";
        assert_eq!(
            with_suggestion(message),
            "unknown field `weeker`, expected one of `holds`, `weaker`; did you mean `weaker`?"
        );
        assert_eq!(
            with_suggestion("missing field `name`"),
            "missing field `name`"
        );
        let none = "unknown field `zzz`, expected `name` or `title`";
        assert_eq!(with_suggestion(none), none);
    }
}
