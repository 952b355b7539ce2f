//! Parses request fields.

use super::secrets;

/// The fields of every request of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// Names and values in order, with a User-Agent.
    pub fields: Vec<(String, String)>,
    /// The value of the Host field, if one was given.
    pub host: Option<String>,
}

/// The reason why a text is not a request field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldError(String);

/// Parses fields of the form `Name: value`.
///
/// # Errors
/// If a field is malformed, or there are two Host fields.
pub fn parse(headers: &[String]) -> Result<RequestFields, FieldError> {
    let mut host = None;
    let mut fields = Vec::new();
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(FieldError(format!(
                "{header:?} is not a request field: use 'Name: value'"
            )));
        };
        let name = name.trim();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(FieldError(format!(
                "{:?} is not a request field: {name:?} is not a valid field name",
                secrets::redact_field(header)
            )));
        }
        if value
            .trim()
            .contains(|c: char| c.is_ascii_control() && c != '\t')
        {
            return Err(FieldError(format!(
                "{:?} is not a request field: its value contains a control character",
                secrets::redact_field(header)
            )));
        }
        if name.eq_ignore_ascii_case("host") {
            // A request has exactly one Host field (RFC 9112 section 3.2): this field replaces the host of the URL.
            if host.replace(value.trim().to_owned()).is_some() {
                return Err(FieldError(
                    "two Host fields are given; a request must have exactly one".to_owned(),
                ));
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
    Ok(RequestFields { fields, host })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parsed fields of these headers, without the default User-Agent.
    fn given(headers: &[&str]) -> Result<RequestFields, FieldError> {
        let headers: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
        let mut parsed = parse(&headers)?;
        let agent = parsed.fields.remove(0);
        assert!(agent.0 == "User-Agent" && agent.1.starts_with("fathometer/"));
        Ok(parsed)
    }

    #[test]
    fn host_is_apart_and_other_fields_stay_in_order() {
        let RequestFields { fields, host } = given(&["B: 2", "host:  a.example ", "A:1"]).unwrap();
        let expected = [("B", "2"), ("A", "1")];
        assert_eq!(fields, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(host.as_deref(), Some("a.example"));
    }

    #[test]
    fn a_given_user_agent_replaces_the_default() {
        let parsed = parse(&["user-agent: mine".to_owned()]).unwrap();
        assert_eq!(
            parsed.fields,
            [("user-agent".to_owned(), "mine".to_owned())]
        );
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
