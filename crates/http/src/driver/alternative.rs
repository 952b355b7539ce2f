//! Alternative services as part of a policy ([`Policy::alt_svc`](super::Policy::alt_svc); RFC 7838, RFC 9114
//! section 3.1): the first connection to a host uses HTTP/2, and HTTP/3 is used as soon as the host has
//! announced it.
//!
//! This follows the behaviour of browsers. The driver connects at once to a service announced by a response (`Alt-Svc`)
//! or by a frame of HTTP/2 (ALTSVC). Requests use HTTP/2 until that connection is established, and the new connection
//! after that. Later visits use the service directly while it is valid. A service that cannot be reached, or fails
//! before any response, is not used for some minutes; its requests are retried over HTTP/2.
//! [`Retrieval`](super::Retrieval::services) records announcements and failures with their times.
//!
//! Services on other hosts and over other protocols are ignored. Requests have no `Alt-Used` field, because some
//! browsers do not send it.

use std::time::Duration;

use fathometer_model::{Failure, Instant, ServiceEvent, ServiceRecord};

use super::action::ConnectionId;
use super::link::LinkState;
use super::page::{PageDriver, without_port};
use super::service::Service;
use crate::alt_svc::{self, AltSvc};
use crate::protocol::Protocol;

/// The time for which a failed service is not used.
const BROKEN_FOR: Duration = Duration::from_secs(5 * 60);

impl PageDriver {
    /// The protocol of a connection.
    pub fn protocol_of(&self, conn: ConnectionId) -> Protocol {
        let link = self.links.get(conn.0 as usize);
        link.map_or(self.policy.protocol, |link| link.protocol)
    }

    /// The port for a connection to an alternative service; `None` for other connections.
    pub fn port_of(&self, conn: ConnectionId) -> Option<u16> {
        self.links.get(conn.0 as usize)?.service
    }

    /// Records the services that are known from earlier visits.
    pub(super) fn recall_services(&mut self, now: Instant) {
        if !self.policy.alt_svc {
            return;
        }
        for name in &self.host_names {
            if let Some(service) = self.cache.service(name).filter(|one| one.is_usable(now)) {
                self.services.push(ServiceRecord {
                    host: name.clone(),
                    at: now,
                    news: ServiceEvent::Known,
                    port: Some(service.port),
                    max_age_s: Some(service.until.since(now).as_secs()),
                    connection: None,
                    failure: None,
                });
            }
        }
    }

    /// Chooses the protocol of a new connection to a host. Also returns the port if the connection goes to an
    /// alternative service.
    pub(super) fn way_to(&self, host: u16, now: Instant) -> (Protocol, Option<u16>) {
        if !self.policy.alt_svc {
            return (self.policy.protocol, None);
        }
        let known = self.cache.service(&self.host_names[usize::from(host)]);
        match known.filter(|service| service.is_usable(now)) {
            Some(service) => (self.policy.protocol, Some(service.port)),
            None => (self.policy.first_protocol(), None),
        }
    }

    /// Chooses the connection to a host for the next request: the connection to the alternative service if it is
    /// established, otherwise an HTTP/2 connection. `None` if the chosen connection accepts no request now.
    pub(super) fn choose_by_service(&mut self, host: u16, now: Instant) -> Option<usize> {
        let known = self.cache.service(&self.host_names[usize::from(host)]);
        let holds = known.is_some_and(|service| !service.is_broken(now));
        let places = |is_service: bool, is_open: bool| {
            let links = self.links.iter().enumerate();
            links.filter(move |(_, link)| {
                link.host == host
                    && link.takes_a_place()
                    && link.service.is_some() == is_service
                    && (!is_open || link.state == LinkState::Open)
                    && (!is_service || holds)
            })
        };
        let ways = [(true, true), (false, false), (true, false)];
        let way = ways
            .into_iter()
            .find(|&(is_service, is_open)| places(is_service, is_open).next().is_some());
        let Some((is_service, is_open)) = way else {
            return Some(self.open_link(host, now));
        };
        let free = places(is_service, is_open).filter(|(_, link)| link.machine.can_request());
        free.min_by_key(|(_, link)| link.machine.outstanding())
            .map(|(place, _)| place)
    }

    /// Records the services announced by the head of a final response.
    pub(super) fn note_services(&mut self, place: usize, now: Instant) {
        if !self.policy.alt_svc {
            return;
        }
        let link = &self.links[place];
        let (host, head) = (link.host, link.machine.head());
        let fields = head.fields();
        let values =
            fields.filter(|(name, _)| name.eq_ignore_ascii_case(alt_svc::FIELD.as_bytes()));
        let values = values.filter_map(|(_, value)| std::str::from_utf8(value).ok());
        let Some(announced) = AltSvc::parse(values) else {
            return;
        };
        // `Age` is the time since the origin generated the response, including time in caches.
        let age = head.text("age").and_then(|age| age.trim().parse().ok());
        let age = Duration::from_secs(age.unwrap_or(0));
        self.take_services(host, &announced, age, now);
    }

    /// Records the services announced in an ALTSVC frame: for the origin of a request, or for the origin named
    /// in the frame (RFC 7838 section 4). A server may announce services only for the origin of its connection.
    pub(super) fn note_service_frame(&mut self, place: usize, is_of_request: bool, now: Instant) {
        let link = &self.links[place];
        let host = link.host;
        let Some((origin, value)) = link.machine.alternatives().filter(|_| self.policy.alt_svc)
        else {
            return;
        };
        let name = &self.host_names[usize::from(host)];
        if (is_of_request || is_origin_of(origin, name))
            && let Some(announced) = AltSvc::parse([value])
        {
            self.take_services(host, &announced, Duration::ZERO, now);
        }
    }

    /// Applies an announcement of a host's services. `age` is the time since the announcement was generated.
    fn take_services(&mut self, host: u16, announced: &AltSvc, age: Duration, now: Instant) {
        let name = self.host_names[usize::from(host)].clone();
        let ours = without_port(&name);
        let protocol = self.policy.protocol.alpn();
        let offer = announced.for_protocol(protocol.as_bytes()).filter(|offer| {
            let is_here =
                offer.host.is_empty() || without_port(&offer.host).eq_ignore_ascii_case(ours);
            is_here && offer.max_age > age
        });
        let before = self.cache.service(&name).copied();
        let Some(offer) = offer else {
            if before.is_some() {
                self.cache.remove_service(&name);
                self.record(host, now, ServiceEvent::Cleared, None);
            }
            return;
        };
        let max_age = offer.max_age.saturating_sub(age);
        let same = before.filter(|before| before.port == offer.port);
        let service = Service {
            port: offer.port,
            until: now + max_age,
            broken_until: same.and_then(|same| same.broken_until),
        };
        self.cache.insert_service(name, service);
        if same.is_none_or(|same| now >= same.until) {
            self.record(host, now, ServiceEvent::Found, None);
        }
        let has_link = self
            .links
            .iter()
            .any(|link| link.host == host && link.service.is_some() && link.takes_a_place());
        if service.is_usable(now) && !has_link {
            self.open_link(host, now);
        }
    }

    /// Handles a failed connection. If the connection led to a service and delivered no response, the service is not
    /// used for some minutes. Returns whether this is so.
    pub(super) fn give_up_service(&mut self, place: usize, failure: Failure, now: Instant) -> bool {
        let link = &self.links[place];
        let is_given_up = link.service.is_some() && link.record.exchanges == 0;
        if is_given_up {
            self.break_service(place, failure, now);
        }
        is_given_up
    }

    /// Stops using the service of a connection.
    pub(super) fn break_service(&mut self, place: usize, failure: Failure, now: Instant) {
        let host = self.links[place].host;
        let name = &self.host_names[usize::from(host)];
        if let Some(service) = self.cache.service_mut(name)
            && !service.is_broken(now)
        {
            service.broken_until = Some(now + BROKEN_FOR);
            self.record(host, now, ServiceEvent::Failed, Some((place, failure)));
        }
    }

    fn record(
        &mut self,
        host: u16,
        at: Instant,
        news: ServiceEvent,
        failed: Option<(usize, Failure)>,
    ) {
        let host = self.host_names[usize::from(host)].clone();
        let service = self.cache.service(&host);
        self.services.push(ServiceRecord {
            at,
            news,
            port: service.map(|service| service.port),
            max_age_s: service
                .filter(|_| news == ServiceEvent::Found)
                .map(|service| service.until.since(at).as_secs()),
            connection: failed.map(|(place, _)| place as u32),
            failure: failed.map(|(_, failure)| failure),
            host,
        });
    }
}

/// Whether a serialized origin (RFC 6454 section 6.2) is the `https` origin of a host.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let bare = |authority: &str| {
        let authority = authority.strip_suffix(":443").unwrap_or(authority);
        authority.to_ascii_lowercase()
    };
    scheme.eq_ignore_ascii_case("https") && bare(authority) == bare(host)
}
