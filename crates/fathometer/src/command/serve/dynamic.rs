//! Arguments of `fathometer serve` about content that is generated for each request.

use std::time::Duration;

use fathometer_http::origin::dynamic::Dynamic;

use crate::command::arguments::time;

/// Parses `PATH[,parts=N][,size=BYTES][,every=TIME][,first=TIME][,type=TYPE]`.
pub fn read(text: &str) -> Result<Dynamic, String> {
    let mut words = text.split(',');
    let mut dynamic = Dynamic {
        path: words.next().unwrap_or_default().to_owned(),
        content_type: None,
        parts: 10,
        part: None,
        first: Duration::ZERO,
        every: Duration::from_millis(100),
    };
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is not of the form NAME=VALUE"))?;
        match name.trim() {
            "parts" => {
                let parts = value.parse();
                dynamic.parts = parts.map_err(|_| format!("{value:?} is not a number of parts"))?;
            }
            "size" => dynamic.part = Some(size(value)?),
            "every" => dynamic.every = time(value)?,
            "first" => dynamic.first = time(value)?,
            "type" => dynamic.content_type = Some(value.trim().to_owned()),
            other => {
                return Err(format!(
                    "unknown setting {other:?}: use parts, size, every, first or type"
                ));
            }
        }
    }
    dynamic.check().map_err(|error| error.to_string())?;
    Ok(dynamic)
}

/// Bytes; the suffix `k` means 1024.
fn size(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let number: u32 = digits
        .parse()
        .map_err(|_| format!("{text:?} is not a size: write a number of bytes, as in 500 or 4k"))?;
    number
        .checked_mul(unit)
        .ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_with_what_they_leave_out() {
        let read = |text| read(text).unwrap();
        let whole = read("/a/b.txt,parts=3,size=4k,every=250ms,first=1s,type=text/html");
        assert_eq!((whole.path.as_str(), whole.parts), ("/a/b.txt", 3));
        assert_eq!(whole.part, Some(4096));
        assert_eq!(whole.every, Duration::from_millis(250));
        assert_eq!(whole.first, Duration::from_secs(1));
        assert_eq!(whole.content_type.as_deref(), Some("text/html"));
        let short = read("/index.html");
        assert_eq!(
            (short.parts, short.part, short.content_type),
            (10, None, None)
        );
    }

    #[test]
    fn invalid_descriptions_of_dynamic_files_are_refused() {
        for bad in [
            "",
            "/",
            "a.txt",
            "/a/../b",
            "/folder/",
            "/a,parts=0",
            "/a,parts=many",
            "/a,size=0",
            "/a,size=2000k",
            "/a,size=9999999k",
            "/a,every=soon",
            "/a,type=",
            "/a,colour=red",
            "/a,parts",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
