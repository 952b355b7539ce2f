//! The server side of one HTTP/1.x connection.
