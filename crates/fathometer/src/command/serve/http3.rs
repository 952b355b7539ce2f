//! HTTP/3, on the same port numbers as the other versions, over UDP.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::origin::Origin;
use fathometer_http::{h1, h3};
use fathometer_model::{Bytes, Seed};
use fathometer_sys::Clock;
use fathometer_tls::ServerSettings;

use crate::command::Failure;
use fathometer_origin::OriginStatistics;
use fathometer_origin::http3::{Service, ServiceError, ServiceOptions, guarded_transport};
use fathometer_quic_sockets::{Sockets, UdpOffload};
use fathometer_sys::stderr::say;

/// The event loops that serve HTTP/3, if it is enabled.
pub struct Http3(Option<Service>);

impl Http3 {
    /// Returns the state without HTTP/3.
    pub fn none() -> Http3 {
        Http3(None)
    }

    /// Starts HTTP/3 on the addresses of the other versions, with the configuration of HTTP/1.
    pub fn start(
        others: &fathometer_origin::ServiceOptions,
        origins: Vec<Arc<Origin>>,
        tls: &Arc<ServerSettings>,
        http1: &h1::server::ServerConfig,
        offload: UdpOffload,
        clock: Clock,
    ) -> Result<Http3, Failure> {
        let options = ServiceOptions {
            addresses: others.addresses.clone(),
            tls: Arc::clone(tls),
            transport: guarded_transport(),
            sockets: Sockets::default().offloaded(offload),
            validates_addresses: false,
            pinned: others.pinned,
            most_open: others.most_open,
            log: others.log.clone(),
            // The identifiers of connections must not be predictable.
            seed: Seed(clock.realtime_of(clock.now()).as_nanos() as u64),
        };
        let config = Arc::new(h3::server::ServerConfig::from(http1));
        let limit = others.limit.as_ref();
        let service = Service::start_within(&options, limit, origins, &config, clock, || None);
        Ok(Http3(Some(service.map_err(failure)?)))
    }

    /// Whether an event loop has exited.
    pub fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(Service::has_ended)
    }

    /// Same as [`fathometer_origin::Service::drain`].
    pub fn drain(&self, within: Duration) {
        if let Some(service) = &self.0 {
            service.drain(within);
        }
    }

    /// Waits until the event loops exit, and returns their statistics.
    pub fn join(self) -> Result<Option<OriginStatistics>, ServiceError> {
        self.0.map(Service::join).transpose()
    }
}

/// Prints the statistics of HTTP/3.
pub fn report(statistics: &OriginStatistics) {
    say(format_args!(
        "HTTP/3: {} responses with {} of content over {} connections; {} handshakes, {} of them resumed a \
         session",
        statistics.responses,
        Bytes(statistics.content),
        statistics.connections,
        statistics.handshakes,
        statistics.resumed
    ));
    let datagrams = &statistics.datagrams;
    say(format_args!(
        "HTTP/3: {} datagrams sent by {} calls, {} received by {} calls into {} buffers",
        datagrams.sent,
        datagrams.send_calls,
        datagrams.received,
        datagrams.receive_calls,
        datagrams.receive_buffers
    ));
}

fn failure(error: ServiceError) -> Failure {
    match error {
        ServiceError::Listen { address, error } => format!(
            "failed to listen on {address} by UDP: {error}: stop the process that listens there, choose another \
             address with --listen, or leave out h3"
        )
        .into(),
        error => format!("failed to start HTTP/3: {error}").into(),
    }
}
