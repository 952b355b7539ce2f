//! One visit to the page, in the client's host: opens it, waits until it is loaded, and prints the page's figures.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::chromium::Chromium;

/// Time to wait after the load event. Chromium requests the page's icon after the page, and the server writes its log
/// once a second.
const SETTLED: Duration = Duration::from_secs(3);

/// The seconds from the start of the navigation to the load event, the images that were decoded, and the protocols.
const LOOK: &str = "(() => {
    const [page] = performance.getEntriesByType('navigation');
    const entries = [page, ...performance.getEntriesByType('resource')];
    const whole = Array.from(document.images).filter(image => image.complete && image.naturalWidth > 0);
    return {
        seconds: page.loadEventStart / 1000,
        images: new Set(whole.map(image => image.src)).size,
        protocols: Array.from(new Set(entries.map(entry => entry.nextHopProtocol))).filter(name => name),
    };
})()";

/// A visit by a browser that is started for this visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Visit {
    /// The first visit, with an empty cache.
    First,
    /// With the files in the cache: opens the page with the fresh files of the cache, and reloads it.
    Reload,
    /// With the files in the cache: opens the page, and validates each file.
    Validation,
}

impl Visit {
    /// All visits, in the order in which a browser makes them.
    pub(super) const ALL: [Visit; 3] = [Visit::First, Visit::Reload, Visit::Validation];

    /// The visit's name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Visit::First => "first",
            Visit::Reload => "reload",
            Visit::Validation => "validation",
        }
    }
}

/// Open a page in Chromium: the part of `browsers` that runs behind the path.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The address of the page.
    url: String,
    /// Folder of the browser's profile, which contains its cache.
    #[arg(long)]
    profile: PathBuf,
    /// Kind of visit.
    #[arg(long, value_enum)]
    visit: Visit,
    /// Further arguments of Chromium.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Visits the page and prints one line of JSON.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut chromium = Chromium::start(&arguments.profile, &arguments.arguments)?;
    let session = chromium.open_page()?;
    if arguments.visit == Visit::Validation {
        // This request field requires validation (RFC 9111 section 5.2.1.1); Chromium's cache obeys it.
        let fields = json!({ "headers": { "Cache-Control": "max-age=0" } });
        chromium.call("Network.enable", &json!({}), Some(&session))?;
        chromium.call("Network.setExtraHTTPHeaders", &fields, Some(&session))?;
    }
    let page = json!({ "url": arguments.url });
    chromium.load("Page.navigate", &page, &session)?;
    if arguments.visit == Visit::Reload {
        std::thread::sleep(SETTLED);
        chromium.load("Page.reload", &json!({}), &session)?;
    }
    let seen = chromium.evaluate(LOOK, &session)?;
    std::thread::sleep(SETTLED);
    chromium.close()?;
    println!("{seen}");
    Ok(ExitCode::SUCCESS)
}
