//! A self-contained HTML page: its style sheet is inline, and its content security policy forbids all other resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style sheet of all pages.
pub(crate) const STYLE: &str = include_str!("page.css");

/// Returns the whole page. `policy` is its content security policy.
pub(crate) fn page(title: &str, policy: &str, body: &Markup) -> Markup {
    page_with(title, policy, "", body)
}

/// Returns the whole page with a second style sheet, whose rules take precedence over the common style sheet.
pub(crate) fn page_with(title: &str, policy: &str, style: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                @if !style.is_empty() { style { (PreEscaped(style)) } }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}
