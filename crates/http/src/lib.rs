//! HTTP protocol machines, client drivers and the origin, free of I/O.
