//! The text form of dynamic resources.

use std::str::FromStr;
use std::time::Duration;

use fathometer_model::quantity;

use super::Dynamic;

/// The reason why a text does not describe a dynamic resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DynamicTextError(String);

/// The text form is `PATH[,parts=N][,size=BYTES][,every=TIME][,first=TIME][,type=TYPE]`. The default is the file at the
/// path in ten parts: the first part immediately, then one part every 100 ms.
impl FromStr for Dynamic {
    type Err = DynamicTextError;

    fn from_str(text: &str) -> Result<Dynamic, DynamicTextError> {
        read(text).map_err(DynamicTextError)
    }
}

fn read(text: &str) -> Result<Dynamic, String> {
    let mut words = text.split(',');
    let mut dynamic = Dynamic {
        path: words.next().unwrap_or_default().to_owned(),
        content_type: None,
        parts: 10,
        part: None,
        first: Duration::ZERO,
        every: Duration::from_millis(100),
    };
    let time = |text: &str| quantity::time(text).map_err(|error| error.to_string());
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is not of the form NAME=VALUE"))?;
        match name.trim() {
            "parts" => {
                let parts = value.parse();
                dynamic.parts =
                    parts.map_err(|_| format!("parts must be a whole number, not {value:?}"))?;
            }
            "size" => {
                let size = quantity::bytes(value).map_err(|error| error.to_string())?;
                let size = u32::try_from(size.0).map_err(|_| format!("{value} is too large"))?;
                dynamic.part = Some(size);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_with_what_they_leave_out() {
        let read = |text: &str| text.parse::<Dynamic>().unwrap();
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
            assert!(bad.parse::<Dynamic>().is_err(), "{bad}");
        }
    }
}
