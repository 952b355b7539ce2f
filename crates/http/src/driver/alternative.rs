//! Alternative services as a part of a policy ([`Policy::alt_svc`](super::Policy::alt_svc); RFC 7838, RFC
//! 9114 section 3.1): a host is first spoken to over HTTP/2, and over HTTP/3 as soon as it has said that it
//! can be.
//!
//! What browsers do is done here. A service that a response tells of (`Alt-Svc`), or the server in a frame of
//! HTTP/2 (ALTSVC), is connected to at once;
//! requests go on over HTTP/2 until that connection is there, and over it from then on. The next visit
//! goes there straight away for as long as the service may be kept. One that cannot be connected to, or
//! ends before it has answered anything, is left alone for a while, and what was asked of it is asked over
//! HTTP/2. What became known when, and what failed, is in the
//! [`Retrieval`](super::Retrieval::services).
//!
//! Services on other hosts and over other protocols are passed over, and no request says that it goes to
//! one (`Alt-Used`, which not all browsers send).

use std::time::Duration;

use fathometer_model::{Failure, Instant, ServiceNews, ServiceRecord};

use super::link::LinkState;
use super::page::{ConnectionId, PageDriver, without_port};
use super::policy::Protocol;
use crate::alt_svc::{self, AltSvc};

/// How long a service that failed is left alone.
const BROKEN_FOR: Duration = Duration::from_secs(5 * 60);

/// An alternative service of a host, as it is remembered from one visit to the next: HTTP/3 on a port of
/// the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The port.
    pub port: u16,
    /// How long it may be used.
    pub until: Instant,
    /// It failed, and is left alone until then.
    pub broken_until: Option<Instant>,
}

impl Service {
    /// Whether a connection may be opened to it.
    pub fn is_usable(&self, now: Instant) -> bool {
        now < self.until && !self.is_broken(now)
    }

    fn is_broken(&self, now: Instant) -> bool {
        self.broken_until.is_some_and(|until| now < until)
    }
}

impl PageDriver {
    /// What a connection speaks.
    pub fn protocol_of(&self, conn: ConnectionId) -> Protocol {
        let link = self.links.get(conn.0 as usize);
        link.map_or(self.policy.protocol, |link| link.protocol)
    }

    /// The port that a connection is to go to, where that is an alternative service's.
    pub fn port_of(&self, conn: ConnectionId) -> Option<u16> {
        self.links.get(conn.0 as usize)?.service
    }

    /// Takes note of the services that are known from earlier visits.
    pub(super) fn recall_services(&mut self, now: Instant) {
        if !self.policy.alt_svc {
            return;
        }
        for name in &self.host_names {
            if let Some(service) = self.cache.service(name).filter(|one| one.is_usable(now)) {
                self.services.push(ServiceRecord {
                    host: name.clone(),
                    at: now,
                    news: ServiceNews::Known,
                    port: Some(service.port),
                    max_age_s: Some(service.until.since(now).as_secs()),
                    connection: None,
                    failure: None,
                });
            }
        }
    }

    /// What a new connection to a host is to speak, and to which port if that is a service's.
    pub(super) fn way_to(&self, host: u16, now: Instant) -> (Protocol, Option<u16>) {
        if !self.policy.alt_svc {
            return (self.policy.protocol, None);
        }
        let known = self.cache.service(&self.host_names[usize::from(host)]);
        match known.filter(|service| service.is_usable(now)) {
            Some(service) => (Protocol::Http3, Some(service.port)),
            None => (self.policy.first_protocol(), None),
        }
    }

    /// The connection to a host for the next request: that to its service once it is established, until
    /// then the one over HTTP/2 if there is one. `None` when that takes nothing now.
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

    /// Takes note of what a final head says of services.
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
        let Some(told) = AltSvc::parse(values) else {
            return;
        };
        // How long it has been on its way from the origin through caches.
        let age = head.text("age").and_then(|age| age.trim().parse().ok());
        let age = Duration::from_secs(age.unwrap_or(0));
        self.take_services(host, &told, age, now);
    }

    /// Takes note of what a server says of services in a frame: of those of a request, or of the origin that
    /// it names (RFC 7838 section 4). A server may speak for the origin that it was connected to as, and for
    /// no other.
    pub(super) fn note_service_frame(&mut self, place: usize, is_of_request: bool, now: Instant) {
        let link = &self.links[place];
        let host = link.host;
        let Some((origin, value)) = link.machine.alternatives().filter(|_| self.policy.alt_svc)
        else {
            return;
        };
        let name = &self.host_names[usize::from(host)];
        if (is_of_request || is_origin_of(origin, name))
            && let Some(told) = AltSvc::parse([value])
        {
            self.take_services(host, &told, Duration::ZERO, now);
        }
    }

    /// Acts on what was told of the services of a host, and is so old.
    fn take_services(&mut self, host: u16, told: &AltSvc, age: Duration, now: Instant) {
        let name = self.host_names[usize::from(host)].clone();
        let ours = without_port(&name);
        let offer = told.speaking(b"h3").filter(|offer| {
            let is_here =
                offer.host.is_empty() || without_port(&offer.host).eq_ignore_ascii_case(ours);
            is_here && offer.max_age > age
        });
        let before = self.cache.service(&name).copied();
        let Some(offer) = offer else {
            if before.is_some() {
                self.cache.remove_service(&name);
                self.tell(host, now, ServiceNews::Cleared, None);
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
            self.tell(host, now, ServiceNews::Found, None);
        }
        let has_link = self
            .links
            .iter()
            .any(|link| link.host == host && link.service.is_some() && link.takes_a_place());
        if service.is_usable(now) && !has_link {
            self.open_link(host, now);
        }
    }

    /// A connection ended with a failure. Where it led to a service and has answered nothing, the service
    /// is left alone from now on: tells whether it is so.
    pub(super) fn give_up_service(&mut self, place: usize, failure: Failure, now: Instant) -> bool {
        let link = &self.links[place];
        let is_given_up = link.service.is_some() && link.record.exchanges == 0;
        if is_given_up {
            self.break_service(place, failure, now);
        }
        is_given_up
    }

    /// Leaves the service that a connection leads to alone from now on.
    pub(super) fn break_service(&mut self, place: usize, failure: Failure, now: Instant) {
        let host = self.links[place].host;
        let name = &self.host_names[usize::from(host)];
        if let Some(service) = self.cache.service_mut(name)
            && !service.is_broken(now)
        {
            service.broken_until = Some(now + BROKEN_FOR);
            self.tell(host, now, ServiceNews::Failed, Some((place, failure)));
        }
    }

    fn tell(
        &mut self,
        host: u16,
        at: Instant,
        news: ServiceNews,
        failed: Option<(usize, Failure)>,
    ) {
        let host = self.host_names[usize::from(host)].clone();
        let service = self.cache.service(&host);
        self.services.push(ServiceRecord {
            at,
            news,
            port: service.map(|service| service.port),
            max_age_s: service
                .filter(|_| news == ServiceNews::Found)
                .map(|service| service.until.since(at).as_secs()),
            connection: failed.map(|(place, _)| place as u32),
            failure: failed.map(|(_, failure)| failure),
            host,
        });
    }
}

/// Whether an origin as a text (RFC 6454 section 6.2) is that of a host over TLS.
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
