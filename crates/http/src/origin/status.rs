//! Methods and status codes of an origin server for files (RFC 9110 sections 9 and 15).

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `PATCH`
    Patch,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// An unknown method.
    Unknown,
}

impl Method {
    /// Parses a method token; methods are case-sensitive.
    pub fn from_token(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Unknown,
        }
    }

    /// The method; `None` for [`Method::Unknown`].
    pub fn known(self) -> Option<Method> {
        (self != Method::Unknown).then_some(self)
    }

    /// The token; `None` for [`Method::Unknown`].
    pub const fn token(self) -> Option<&'static str> {
        Some(match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Patch => "PATCH",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Unknown => return None,
        })
    }
}

/// A status code that this origin sends, with its reason phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status {
    code: u16,
    line: &'static str,
}

macro_rules! statuses {
    ($($name:ident = $code:literal, $line:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("`", $line, "`")]
                pub const $name: Status = Status { code: $code, line: $line };
            )*
        }
    };
}

statuses! {
    CONTINUE = 100, "100 Continue";
    EARLY_HINTS = 103, "103 Early Hints";
    OK = 200, "200 OK";
    NO_CONTENT = 204, "204 No Content";
    PARTIAL_CONTENT = 206, "206 Partial Content";
    MOVED_PERMANENTLY = 301, "301 Moved Permanently";
    NOT_MODIFIED = 304, "304 Not Modified";
    BAD_REQUEST = 400, "400 Bad Request";
    FORBIDDEN = 403, "403 Forbidden";
    NOT_FOUND = 404, "404 Not Found";
    METHOD_NOT_ALLOWED = 405, "405 Method Not Allowed";
    NOT_ACCEPTABLE = 406, "406 Not Acceptable";
    REQUEST_TIMEOUT = 408, "408 Request Timeout";
    PRECONDITION_FAILED = 412, "412 Precondition Failed";
    CONTENT_TOO_LARGE = 413, "413 Content Too Large";
    URI_TOO_LONG = 414, "414 URI Too Long";
    RANGE_NOT_SATISFIABLE = 416, "416 Range Not Satisfiable";
    EXPECTATION_FAILED = 417, "417 Expectation Failed";
    HEADER_TOO_LARGE = 431, "431 Request Header Fields Too Large";
    NOT_IMPLEMENTED = 501, "501 Not Implemented";
    SERVICE_UNAVAILABLE = 503, "503 Service Unavailable";
    VERSION_NOT_SUPPORTED = 505, "505 HTTP Version Not Supported";
}

impl Status {
    /// The three digits of the code as a number.
    pub const fn code(self) -> u16 {
        self.code
    }

    /// The code and the reason phrase, separated by a space, as in a status line.
    pub const fn line(self) -> &'static str {
        self.line
    }

    /// Whether a response with this status never has content.
    pub const fn is_bodiless(self) -> bool {
        matches!(self.code, 100..=199 | 204 | 304)
    }

    /// Whether the status reports an error of the client or of the server.
    pub const fn is_error(self) -> bool {
        self.code >= 400
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive_and_parsed_back() {
        for token in [
            "GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT",
        ] {
            assert_eq!(Method::from_token(token.as_bytes()).token(), Some(token));
        }
        assert_eq!(Method::from_token(b"get"), Method::Unknown);
    }
}
