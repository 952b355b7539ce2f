//! The request fields of the command line (`-H`).

use fathometer_load::secrets;

use crate::command::{Failure, usage};

/// The fields of every request, and the value of the Host field if one was given.
#[expect(
    clippy::type_complexity,
    reason = "both come out of the same arguments"
)]
pub(super) fn fields(
    headers: &[String],
) -> Result<(Vec<(String, String)>, Option<String>), Failure> {
    let mut host = None;
    let mut fields = Vec::new();
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(usage(format!(
                "{header:?} is not a request field: write 'Name: value'"
            )));
        };
        let name = name.trim();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(usage(format!(
                "{:?} is not a request field: {name:?} is not a valid field name",
                secrets::redact_field(header)
            )));
        }
        if value
            .trim()
            .contains(|c: char| c.is_ascii_control() && c != '\t')
        {
            return Err(usage(format!(
                "{:?} is not a request field: its value contains a control character",
                secrets::redact_field(header)
            )));
        }
        if name.eq_ignore_ascii_case("host") {
            // A request has exactly one Host field (RFC 9112 section 3.2): this one replaces the URL's host.
            if host.replace(value.trim().to_owned()).is_some() {
                return Err(usage("two Host fields were given; a request has only one"));
            }
            continue;
        }
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    let is_agent = |(name, _): &(String, String)| name.eq_ignore_ascii_case("user-agent");
    if !fields.iter().any(is_agent) {
        let agent = concat!("fathometer/", env!("CARGO_PKG_VERSION"));
        fields.insert(0, ("User-Agent".to_owned(), agent.to_owned()));
    }
    Ok((fields, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields, and the Host field.
    type Given = (Vec<(String, String)>, Option<String>);

    /// The fields of these headers without the default User-Agent.
    fn given(headers: &[&str]) -> Result<Given, Failure> {
        let headers: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
        let (mut fields, host) = fields(&headers)?;
        let agent = fields.remove(0);
        assert!(agent.0 == "User-Agent" && agent.1.starts_with("fathometer/"));
        Ok((fields, host))
    }

    #[test]
    fn host_is_apart_and_other_fields_stay_in_order() {
        let (fields, host) = given(&["B: 2", "host:  a.example ", "A:1"]).unwrap();
        let expected = [("B", "2"), ("A", "1")];
        assert_eq!(fields, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(host.as_deref(), Some("a.example"));
    }

    #[test]
    fn a_given_user_agent_replaces_the_default() {
        let (fields, _) = fields(&["user-agent: mine".to_owned()]).unwrap();
        assert_eq!(fields, [("user-agent".to_owned(), "mine".to_owned())]);
    }

    #[test]
    fn malformed_fields_are_refused() {
        for wrong in [
            &["name"][..],
            &[": value"],
            &["a b: c"],
            &["a: \u{1}"],
            &["Host: a", "host: b"],
        ] {
            assert!(given(wrong).is_err(), "{wrong:?}");
        }
    }
}
