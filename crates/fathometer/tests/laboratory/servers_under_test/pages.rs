//! Programs as servers of page studies: without limits, with the levels of a cell.

use std::time::Duration;

use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::Packages;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Content, Demands, Storage};
use fathometer_sys::Clock;

use super::support::{self, Asking, Files, PATIENCE, address};

#[test]
fn httpd_serves_pages() {
    serves_pages("httpd", Some("deflate"), Some(5));
}

#[test]
fn nginx_serves_pages() {
    serves_pages("nginx", Some("gzip"), Some(5));
}

#[test]
fn lighttpd_serves_pages() {
    serves_pages("lighttpd", None, Some(5));
}

#[test]
fn caddy_serves_pages() {
    serves_pages("caddy", Some("gzip"), None);
}

#[test]
fn h2o_serves_pages() {
    serves_pages("h2o", Some("gzip"), None);
}

#[test]
fn haproxy_serves_pages() {
    serves_pages("haproxy", Some("gzip"), None);
}

/// Checks that the server sends pages with a precompressed form, and limits the requests of a connection.
fn serves_pages(name: &str, coding: Option<&str>, limit: Option<u32>) {
    let definition = Definition::load(name).unwrap();
    let Some(installed) = support::installed(&definition) else {
        return;
    };
    let (files, lab) = (Files::new(), support::lab());
    let site = &files.site;
    let level = limit.map_or("none".to_owned(), |limit| limit.to_string());
    assert!(definition.can("limit", &level));
    let demands = Demands {
        max_requests: limit,
        careless_close: false,
        nodelay: true,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    };
    let packages = Packages::default();
    let content = Content {
        site,
        folder: files.folder(),
        push: &Plan::default(),
        early_hints: &Plan::default(),
        packages: &packages,
        storage: Storage::Memory,
    };
    let running = server::start(
        &definition,
        installed.as_ref(),
        &lab.server,
        content,
        demands,
        Clock::start(),
    )
    .unwrap();
    let connect = || {
        let address = address(&lab.server);
        let connected = lab.client.namespace.run(|| {
            let stream = std::net::TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE)).map(|()| stream)
        });
        connected.unwrap()
    };

    let mut asking = Asking::new(connect().unwrap());
    for n in 0..10 {
        let file = &site.files[n % 3];
        let answer = asking.ask(&file.path, "");
        if limit.is_some_and(|limit| n >= limit as usize) {
            assert!(answer.is_none(), "{name}: {n}");
            break;
        }
        let answer = answer.unwrap_or_else(|| panic!("{name}: {n}"));
        answer.assert_is(file, name);
        let last = answer.field("connection") == Some("close");
        let is_last = limit.is_some_and(|limit| n + 1 == limit as usize);
        assert_eq!(last, is_last, "{name}: {}", answer.head);
    }
    drop(asking);

    // The precompressed form is sent to clients that accept it.
    if let Some(coding) = coding {
        assert!(definition.can("coding", coding));
        let page = &site.files[0];
        let fields = format!("Accept-Encoding: {coding}\r\n");
        let coded = Asking::new(connect().unwrap())
            .ask(&page.path, &fields)
            .unwrap();
        assert_eq!(coded.field("content-encoding"), Some(coding), "{name}");
        assert!(
            page.encoded
                .iter()
                .any(|(_, body)| *body.bytes() == coded.content)
        );
    }

    let report = running.stop().unwrap();
    assert!(report.program_cpu.is_some_and(|cpu| cpu > Duration::ZERO));
    assert!(connect().is_err(), "{name} is still there");
    lab.stop();
}
