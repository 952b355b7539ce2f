//! Counts the bytes that the peer has acknowledged.
//!
//! quinn-proto reports acknowledged packets only to its congestion controller. Therefore each controller is wrapped
//! in a controller that sums the bytes. The decisions of the wrapped controller do not change.

use std::any::Any;
use std::sync::Arc;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::timeline::MachineInstant as Instant;

/// Creates counting controllers.
pub(crate) struct CountedFactory<F>(pub(crate) Arc<F>);

impl<F: ControllerFactory + Send + Sync + 'static> ControllerFactory for CountedFactory<F> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Counted {
            inner: Arc::clone(&self.0).build(now, current_mtu),
            acknowledged: 0,
        })
    }
}

/// A controller and the number of acknowledged bytes.
struct Counted {
    inner: Box<dyn Controller>,
    acknowledged: u64,
}

/// Returns the bytes of packets that the peer has acknowledged on the current path. Copies the controller, so do not
/// call it for every packet.
pub(crate) fn acknowledged(controller: &dyn Controller) -> u64 {
    let copy = controller.clone_box().into_any();
    copy.downcast::<Counted>()
        .map_or(0, |counted| counted.acknowledged)
}

impl Controller for Counted {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acknowledged += bytes;
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Counted {
            inner: self.inner.clone_box(),
            acknowledged: self.acknowledged,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
