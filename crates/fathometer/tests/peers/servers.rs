//! Our client drivers fetch the site from Apache httpd and nginx.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{FATHOMETER, IMAGES, PAGE, SITE_BYTES, Server, SiteFolder, run_well, tool};

/// Every policy, with the number of connections it may take at most.
const POLICIES: [(&str, usize); 7] = [
    ("h1.0", 43),
    ("h1.0x4", 43),
    ("h1.0-keepalive", 1),
    ("h1.1", 1),
    ("h1.1x4", 4),
    ("h1.1-pipeline", 1),
    ("h1.1-pipeline-ranges", 1),
];

/// What `fathometer fetch --json` says.
struct Fetch(Value);

impl Fetch {
    fn new(server: &Server, policy: &str, arguments: &[&str]) -> Fetch {
        let printed = run_well(
            Command::new(FATHOMETER)
                .arg("fetch")
                .arg(server.url(PAGE))
                .args(["--policy", policy, "--json"])
                .args(arguments),
        );
        let fetch = Fetch(serde_json::from_slice(&printed).unwrap());
        assert_eq!(
            fetch.0["complete"], true,
            "{policy} {arguments:?}: {}",
            fetch.0
        );
        fetch
    }

    fn exchanges(&self) -> &[Value] {
        self.0["exchanges"].as_array().unwrap()
    }

    fn connections(&self) -> usize {
        self.0["connections"].as_array().unwrap().len()
    }

    /// Octets of content by target, of responses with a status that carries some.
    fn content(&self) -> BTreeMap<&str, u64> {
        let mut content = BTreeMap::new();
        for exchange in self.exchanges() {
            let status = exchange["status"].as_u64();
            if matches!(status, Some(200 | 206)) && exchange["method"] == "GET" {
                *content
                    .entry(exchange["target"].as_str().unwrap())
                    .or_default() += exchange["response_body"].as_u64().unwrap();
            }
        }
        content
    }

    fn count(&self, method: &str, status: u64) -> usize {
        self.exchanges()
            .iter()
            .filter(|exchange| exchange["method"] == method && exchange["status"] == status)
            .count()
    }
}

#[test]
fn our_clients_fetch_the_page_from_apache() {
    let Some(apache) = tool("apache2").or_else(|| tool("httpd")) else {
        return;
    };
    let site = SiteFolder::new();
    let server = Server::foreign("Apache httpd", |address, folder| {
        apache_command(&apache, address, folder, site.path())
    });
    fetch_all(&server, &site);
}

#[test]
fn our_clients_fetch_the_page_from_nginx() {
    let Some(nginx) = tool("nginx") else { return };
    let site = SiteFolder::new();
    let server = Server::foreign("nginx", |address, folder| {
        nginx_command(&nginx, address, folder, site.path())
    });
    fetch_all(&server, &site);
}

/// The same against our own origin, which shows that what differs above is the server.
#[test]
fn our_clients_fetch_the_page_from_our_origin() {
    let site = SiteFolder::new();
    let server = Server::origin(site.path(), &[]);
    fetch_all(&server, &site);
    // What is found in a coded page is the same, and it is found in fewer octets.
    for policy in ["h1.1", "h1.1-pipeline"] {
        let coded = Fetch::new(&server, policy, &["--compressed"]);
        assert_eq!(coded.exchanges().len(), IMAGES + 1, "{policy}");
        let page = coded.content()[format!("/{PAGE}").as_str()];
        assert!((11_000..11_600).contains(&page), "{policy}: {page} B");
    }
}

/// A server that closes after a few requests makes the clients ask again, and no more than that.
#[test]
fn our_clients_survive_a_limit_on_requests() {
    let site = SiteFolder::new();
    for (arguments, connections) in [
        (&["--max-requests", "5"][..], 9),
        (&["--max-requests", "15"][..], 3),
    ] {
        let server = Server::origin(site.path(), arguments);
        for policy in ["h1.1", "h1.1-pipeline"] {
            let fetch = Fetch::new(&server, policy, &[]);
            whole_site(&fetch, &site, policy);
            assert!(fetch.connections() >= connections, "{policy} {arguments:?}");
        }
    }
}

fn fetch_all(server: &Server, site: &SiteFolder) {
    for (policy, connections) in POLICIES {
        let first = Fetch::new(server, policy, &[]);
        whole_site(&first, site, policy);
        let taken = first.connections();
        assert!(
            (1..=connections).contains(&taken),
            "{policy}: {taken} connections"
        );

        let again = Fetch::new(server, policy, &["--visit", "revalidate"]);
        if policy.ends_with("ranges") {
            let stale = again.count("GET", 200);
            assert_eq!(stale, 0, "{policy}: fetched again: {}", again.0);
        } else {
            assert_eq!(again.count("GET", 304), IMAGES + 1, "{policy}: {}", again.0);
            assert!(again.content().is_empty(), "{policy}");
        }
        let by_date = Fetch::new(
            server,
            policy,
            &["--visit", "revalidate", "--revalidation", "date"],
        );
        assert_eq!(by_date.count("GET", 200), 0, "{policy}: {}", by_date.0);
    }
    // The paper's HTTP/1.0: one GET and 42 HEADs.
    let heads = Fetch::new(
        server,
        "h1.0x4",
        &["--visit", "revalidate", "--revalidation", "head"],
    );
    assert_eq!(heads.count("HEAD", 200), IMAGES, "{}", heads.0);
    assert_eq!(heads.exchanges().len(), IMAGES + 1);
}

/// Each file came whole, and nothing else did.
fn whole_site(fetch: &Fetch, site: &SiteFolder, policy: &str) {
    let content = fetch.content();
    for file in site.images().iter().map(String::as_str).chain([PAGE]) {
        let target = format!("/{file}");
        let size = site.read(file).len() as u64;
        let got = content.get(target.as_str()).copied();
        // Ranges of one file may come as several parts with heads of their own.
        let enough = got.is_some_and(|got| got == size || policy.ends_with("ranges") && got > size);
        assert!(enough, "{policy}: {target} is {size} B, got {got:?}");
    }
    assert_eq!(content.len(), IMAGES + 1, "{policy}");
    if !policy.ends_with("ranges") {
        assert_eq!(content.values().sum::<u64>(), SITE_BYTES, "{policy}");
    }
}

/// One worker process, in the foreground, with everything it writes in `folder`.
fn apache_command(apache: &Path, address: SocketAddr, folder: &Path, site: &Path) -> Command {
    let modules = [
        "/usr/lib/apache2/modules",
        "/usr/lib64/httpd/modules",
        "/usr/lib/httpd/modules",
    ]
    .map(PathBuf::from)
    .into_iter()
    .find(|modules| modules.is_dir())
    .expect("Apache httpd has a folder of modules");
    let mut loaded = String::new();
    for name in ["mpm_event", "authz_core", "mime", "dir", "unixd"] {
        // Some systems compile a module in.
        let file = modules.join(format!("mod_{name}.so"));
        if file.is_file() {
            loaded += &format!("LoadModule {name}_module {}\n", file.display());
        }
    }
    let folder_name = folder.display();
    let user = unprivileged_user();
    let configuration = format!(
        "ServerRoot {folder_name}\nPidFile {folder_name}/pid\nDefaultRuntimeDir {folder_name}\n\
         ServerName localhost\nListen {address}\n{loaded}{user}\
         StartServers 1\nServerLimit 1\nThreadsPerChild 8\nMaxRequestWorkers 8\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nErrorLog {folder_name}/error.log\n\
         TypesConfig /dev/null\nAddType text/html .html\nAddType image/gif .gif\n\
         DocumentRoot {site}\n<Directory {site}>\nRequire all granted\n</Directory>\n",
        site = site.display()
    );
    let file = folder.join("httpd.conf");
    fs::write(&file, configuration).unwrap();
    let mut command = Command::new(apache);
    command.args(["-D", "FOREGROUND", "-f"]).arg(file);
    command
}

/// As root, Apache httpd wants somebody else to be; otherwise it must not be told.
fn unprivileged_user() -> String {
    if !rustix::process::geteuid().is_root() {
        return String::new();
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let user = ["www-data", "apache", "nobody"]
        .into_iter()
        .find(|user| {
            users
                .lines()
                .any(|line| line.starts_with(&format!("{user}:")))
        })
        .expect("there is a user without privileges");
    format!("User {user}\n")
}

/// One process, in the foreground, with everything it writes in `folder`.
fn nginx_command(nginx: &Path, address: SocketAddr, folder: &Path, site: &Path) -> Command {
    let folder_name = folder.display();
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid {folder_name}/pid;\n\
         error_log {folder_name}/error.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000;\n\
         types {{ text/html html; image/gif gif; }}\n\
         client_body_temp_path {folder_name}/body;\nproxy_temp_path {folder_name}/proxy;\n\
         fastcgi_temp_path {folder_name}/fastcgi;\nuwsgi_temp_path {folder_name}/uwsgi;\n\
         scgi_temp_path {folder_name}/scgi;\n\
         server {{ listen {address}; root {site}; }}\n}}\n",
        site = site.display()
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration).unwrap();
    let mut command = Command::new(nginx);
    command
        .arg("-c")
        .arg(file)
        .arg("-p")
        .arg(folder)
        .arg("-e")
        .arg(folder.join("start.log"));
    command
}
