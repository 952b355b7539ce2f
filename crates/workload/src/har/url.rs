//! URLs of the requests in the archive.

use super::json::Node;
use crate::fault::Fault;
use crate::target::is_origin_form;

/// The used parts of an http or https URL.
pub(super) struct Url<'a> {
    /// The host, with the port if the URL has one.
    pub(super) host: &'a str,
    /// The remaining URL, from the first slash on; may be empty.
    rest: &'a str,
}

impl<'a> Url<'a> {
    pub(super) fn of(node: &Node<'a>) -> Result<Url<'a>, Fault> {
        let text = node.text()?;
        let after = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"))
            .ok_or_else(|| node.expected("an http or https URL"))?;
        let without_fragment = after.split('#').next().unwrap_or_default();
        let end = without_fragment
            .find(['/', '?'])
            .unwrap_or(without_fragment.len());
        let (authority, rest) = without_fragment.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or_default();
        let url = Url { host, rest };
        if host.is_empty() || !is_origin_form(&url.target()) {
            return Err(node.expected("an http or https URL"));
        }
        Ok(url)
    }

    /// Returns the request target in origin form. Characters that browsers show unencoded are percent-encoded.
    pub(super) fn target(&self) -> String {
        let mut target = String::with_capacity(self.rest.len() + 1);
        if !self.rest.starts_with('/') {
            target.push('/');
        }
        for byte in self.rest.bytes() {
            match byte {
                0x21..=0x7e => target.push(byte.into()),
                _ => target.push_str(&format!("%{byte:02X}")),
            }
        }
        target
    }
}
