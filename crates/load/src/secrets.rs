//! Removes secrets from command lines before they are saved or shown.

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Request fields whose values are secrets.
const FIELDS: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-amz-security-token",
];

/// Returns the command line of this process, including the program, with its secrets redacted.
pub fn command_line() -> Vec<String> {
    // Bytes that are invalid UTF-8 are replaced.
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    redact(arguments)
}

/// Redacts the secrets of any command line.
pub fn redact(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut is_field = false;
    let redacted = arguments.into_iter().map(|argument| {
        let was_field = std::mem::replace(&mut is_field, is_field_option(&argument));
        if was_field {
            return redact_field(&argument);
        }
        match field_within(&argument) {
            Some((option, field)) => format!("{option}{}", redact_field(field)),
            None => redact_url(&argument),
        }
    });
    redacted.collect()
}

/// Returns whether the next argument is a request field: after `-H`, `--header`, or combined short options that end in
/// `H`.
fn is_field_option(argument: &str) -> bool {
    let is_short =
        |flags: &str| flags.ends_with('H') && flags.bytes().all(|flag| flag.is_ascii_alphabetic());
    argument == "--header"
        || (!argument.starts_with("--") && argument.strip_prefix('-').is_some_and(is_short))
}

/// Returns the request field in an argument that includes the option: `-HName: value`, `--header=Name: value`,
/// `-qHName: value`.
fn field_within(argument: &str) -> Option<(&str, &str)> {
    let start = match argument.strip_prefix("--header=") {
        Some(_) => "--header=".len(),
        None if argument.starts_with("--") || !argument.starts_with('-') => return None,
        None => argument.find('H')? + 1,
    };
    (start < argument.len()).then(|| argument.split_at(start))
}

/// Redacts the value of a field `Name: value` if it is a secret.
pub fn redact_field(field: &str) -> String {
    let Some((name, _)) = field.split_once(':') else {
        return field.to_owned();
    };
    let is_secret = FIELDS
        .iter()
        .any(|secret| name.trim().eq_ignore_ascii_case(secret));
    match is_secret {
        true => format!("{name}: {REDACTED}"),
        false => field.to_owned(),
    }
}

/// Redacts the user information before the `@` of every URL in a text.
pub fn redact_url(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        redacted.push_str(before);
        let end = after
            .find(|c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace())
            .unwrap_or(after.len());
        let (authority, others) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((_, host)) => redacted.push_str(&format!("{REDACTED}@{host}")),
            None => redacted.push_str(authority),
        }
        rest = others;
    }
    redacted.push_str(rest);
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(arguments: &[&str]) -> String {
        redact(arguments.iter().map(|&argument| argument.to_owned())).join(" ")
    }

    #[test]
    fn secrets_of_fields_are_redacted_however_the_option_is_written() {
        for arguments in [
            &["load", "-H", "Authorization: Bearer s3cret"][..],
            &["load", "-HAuthorization: Bearer s3cret"],
            &["load", "-qHauthorization:s3cret"],
            &["load", "-qH", "COOKIE: a=s3cret"],
            &["load", "--header", "Proxy-Authorization: Basic s3cret"],
            &["load", "--header=Cookie: a=b; c=s3cret"],
            &["load", "--header", " X-Api-Key : s3cret"],
        ] {
            let text = redacted(arguments);
            assert!(
                !text.contains("s3cret") && text.contains(REDACTED),
                "{text}"
            );
        }
        let others = ["load", "-H", "Accept: text/html", "-d", "10s", "--json"];
        assert_eq!(redacted(&others), others.join(" "));
    }

    #[test]
    fn credentials_in_urls_are_redacted() {
        for (text, wanted) in [
            ("http://me:s3cret@host/a", "http://[redacted]@host/a"),
            ("https://s3cret@[::1]:8443", "https://[redacted]@[::1]:8443"),
            ("http://a@b:s3@cret@host?q", "http://[redacted]@host?q"),
            ("http://host/a@b", "http://host/a@b"),
            (
                "har:http://u:p@h/ x://v@i",
                "har:http://[redacted]@h/ x://[redacted]@i",
            ),
            ("me@host", "me@host"),
        ] {
            assert_eq!(redact_url(text), wanted);
        }
    }
}
