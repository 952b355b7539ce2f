//! The library's interface, without a laboratory: its engine, its clients and its servers on real sockets, and
//! the data of a study.

mod h2_client_peers;
mod http3_peers;
mod leucht15;
mod load_engine;
mod slow_links;
#[path = "../support"]
mod support {
    pub mod closed_port;
    pub mod ports;
    pub mod programs;
    pub mod quiet;
    pub mod scripted_server;
}
