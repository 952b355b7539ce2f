//! All that is Linux: namespaces, TUN devices, sockets, clocks, capture files.
