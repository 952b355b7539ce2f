//! `fathometer trace`: packet accounting of any capture.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::report::capture_page;
use fathometer_files::whole_file;
use fathometer_packets::capture::Record;
use fathometer_packets::{
    Accounting, CaptureError, Options, TapChoice, TimeSequence, account_each, plot,
};

use fathometer_model::Bytes;
use serde::Serialize;

use super::Failure;
use fathometer_lab::tap_file::TapFile;
use fathometer_study::evaluation::time_sequence_graph;

/// Maximum number of connections in one graph; the first connections of the capture are drawn.
const DRAWN: usize = 256;
/// Largest number of points in the graph of a page, about 10 MB.
const PAGE_POINTS: usize = 500_000;
const NOTHING: &str = "nothing to plot: no packet of a TCP connection was counted";

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 3: the file is truncated or damaged; the figures cover the packets before the damage."
)]
pub struct TraceArguments {
    /// Capture file, pcap or pcapng, optionally compressed with gzip or zstd; - reads it from stdin
    file: PathBuf,
    /// Print all results as JSON, including each connection
    #[arg(long)]
    json: bool,
    /// Packets to count: `client` or `server`, the tap of a capture made by this program; `all`; or the name of
    /// an interface
    #[arg(long, default_value = "client", value_name = "client|server|all|NAME")]
    tap: String,
    /// Memory limit of the accounting; K, M, G and T are powers of 1024. A connection takes about 250 bytes
    #[arg(long, default_value = "2G", value_name = "SIZE", value_parser = super::arguments::size)]
    memory: u64,
    /// Also print one line per connection
    #[arg(long)]
    connections: bool,
    /// Also draw a time-sequence graph of the first connections to this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Also write an HTML page with the accounting and a zoomable time-sequence graph that shows the path's drops
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Also write the packets of the counted tap to this pcapng file. Wireshark counts a packet that passes two
    /// taps twice: for a capture with several taps, open the file of a single tap
    #[arg(long, value_name = "FILE.pcapng")]
    write: Option<PathBuf>,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    accounting: &'a Accounting,
    metrics: BTreeMap<String, f64>,
}

/// Prints the accounting. The exit code shows whether the capture was complete.
pub fn run(arguments: &TraceArguments) -> Result<ExitCode, Failure> {
    let (accounting, sequences) = arguments.account()?;
    let connections = accounting.connections.len();
    if let Some(file) = &arguments.plot {
        arguments.draw(file, &sequences, connections)?;
    }
    if let Some(file) = &arguments.report {
        arguments.write_page(file, sequences, &accounting)?;
    }
    match arguments.print(&accounting, &mut io::stdout().lock()) {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        printed => printed?,
    }
    if accounting.integrity.is_whole() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "warning: {}: {}; the figures cover the {} packets before it",
        arguments.name(),
        accounting.integrity,
        accounting.packets()
    );
    Ok(ExitCode::from(3))
}

impl TraceArguments {
    fn account(&self) -> Result<(Accounting, Vec<TimeSequence>), Failure> {
        let options = Options {
            taps: match self.tap.parse::<TapChoice>() {
                Ok(taps) => taps,
                Err(never) => match never {},
            },
            memory: Bytes(self.memory),
            time_sequences: match self.plot.is_some() || self.report.is_some() {
                true => DRAWN,
                false => 0,
            },
            ..Options::default()
        };
        let mut extracted = match &self.write {
            Some(file) => Some(extract(file, &self.file, options.taps.clone())?),
            None => None,
        };
        let each = |record: &Record<'_>| {
            if let Some(file) = &mut extracted {
                file.packet(record);
            }
        };
        let result = if self.is_stdin() {
            account_each(io::stdin().lock(), &options, each)
        } else {
            account_each(open(&self.file)?, &options, each)
        };
        let (accounting, sequences) = result.map_err(|error| failure(&self.name(), &error))?;
        let interfaces = &accounting.interfaces;
        if !interfaces.is_empty() && !interfaces.iter().any(|interface| interface.counted) {
            return Err(self.missing_interface(&accounting));
        }
        if let (Some(extracted), Some(file)) = (extracted, &self.write) {
            let packets = extracted
                .finish()
                .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
            eprintln!("written: {}, {packets} packets", file.display());
        }
        Ok((accounting, sequences))
    }

    /// Explains why no packet was counted, and lists the interfaces.
    fn missing_interface(&self, accounting: &Accounting) -> Failure {
        let (name, tap) = (self.name(), &self.tap);
        let interfaces = accounting.interfaces.iter();
        let known: Vec<&str> = interfaces.filter_map(|i| i.name.as_deref()).collect();
        if known.is_empty() {
            return format!("{name} has no interface names to match {tap:?}: use --tap all").into();
        }
        let known = known.join(", ");
        format!("{name} has no interface {tap:?}; it has {known}").into()
    }

    fn draw(
        &self,
        file: &Path,
        sequences: &[TimeSequence],
        connections: usize,
    ) -> Result<(), Failure> {
        let svg = plot::time_sequences(sequences, &self.name()).ok_or(NOTHING)?;
        whole_file::write(file, svg.as_bytes())
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
        let left_out = time_sequence_graph::left_out(sequences.len(), connections);
        eprintln!("graph: {} {left_out}", file.display());
        Ok(())
    }

    fn write_page(
        &self,
        file: &Path,
        sequences: Vec<TimeSequence>,
        accounting: &Accounting,
    ) -> Result<(), Failure> {
        let connections = accounting.connections.len();
        let name = self.name();
        let graph = time_sequence_graph::graph(sequences, connections, &name, PAGE_POINTS);
        let table = accounting.table(&name, self.connections);
        let page = capture_page(&name, &table, &graph.ok_or(NOTHING)?);
        whole_file::write(file, page.as_bytes())
            .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
        eprintln!("report: {}", file.display());
        Ok(())
    }

    fn print(&self, accounting: &Accounting, out: &mut impl Write) -> io::Result<()> {
        if !self.json {
            let table = accounting.table(&self.name(), self.connections);
            return out.write_all(table.as_bytes());
        }
        // The document is written incrementally, because there may be millions of connections.
        let mut out = BufWriter::new(out);
        let document = Document {
            accounting,
            metrics: accounting.metrics(),
        };
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
        out.flush()
    }

    fn is_stdin(&self) -> bool {
        self.file.as_os_str() == OsStr::new("-")
    }

    /// Returns the capture's name for messages.
    fn name(&self) -> String {
        match self.is_stdin() {
            true => "stdin".to_owned(),
            false => self.file.display().to_string(),
        }
    }
}

/// Creates the capture file for `--write`.
fn extract(file: &Path, from: &Path, taps: TapChoice) -> Result<TapFile, Failure> {
    if let (Ok(one), Ok(other)) = (file.canonicalize(), from.canonicalize())
        && one == other
    {
        return Err(format!(
            "{} is the input file: choose another output file",
            file.display()
        )
        .into());
    }
    let begun = TapFile::create(file, taps);
    begun.map_err(|error| format!("failed to write {}: {error}", file.display()).into())
}

fn open(file: &Path) -> Result<impl Read + use<>, Failure> {
    File::open(file).map_err(|error| format!("failed to open {}: {error}", file.display()).into())
}

fn failure(name: &str, error: &CaptureError) -> Failure {
    format!("failed to account for the packets of {name}: {error}").into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use fathometer_packets::parse::Flags;
    use fathometer_packets::synthetic::{CaptureWriter, Conversation};

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        trace: TraceArguments,
    }

    fn arguments(words: &[&str]) -> TraceArguments {
        let words = [&["trace"], words].concat();
        CommandLine::try_parse_from(words).unwrap().trace
    }

    /// Returns a capture of a TCP handshake at the interfaces of the client and of the server.
    fn capture() -> Vec<u8> {
        let taps = ["client.tx", "server.rx", "server.tx", "client.rx"];
        let mut writer = CaptureWriter::pcapng(&taps.map(|name| (name, 101)));
        let ends = (
            "10.0.0.1:1025".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
        );
        let mut talk = Conversation::new(ends.0, ends.1, (1, 2));
        let mut plans = talk.open().to_vec();
        plans.push(talk.up(Flags::ACK, 100));
        for (n, plan) in plans.iter().enumerate() {
            let enters = if plan.source == talk.client { 0 } else { 2 };
            let time = n as u64 * 1_000_000;
            writer.packet(enters, time, &plan.ip_packet(), None);
            writer.packet(enters + 1, time + 500_000, &plan.ip_packet(), None);
        }
        writer.into_bytes()
    }

    fn printed(arguments: &TraceArguments) -> String {
        let (accounting, _) = arguments.account().unwrap();
        let mut out = Vec::new();
        arguments.print(&accounting, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_names_the_file_and_what_was_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.pcapng");
        fs::write(&file, capture()).unwrap();
        let file = file.to_str().unwrap();
        let text = printed(&arguments(&[file]));
        assert!(text.starts_with(&format!("{file}: 4 packets")), "{text}");
        assert!(
            text.contains("counted: client.tx (3), client.rx (1)"),
            "{text}"
        );
        assert!(!text.contains("each connection"));
        assert!(printed(&arguments(&[file, "--tap", "all"])).contains(": 8 packets"));
        assert!(printed(&arguments(&[file, "--tap", "server.rx"])).contains(": 3 packets"));
        assert!(printed(&arguments(&[file, "--connections"])).contains("each connection"));
        let missing = arguments(&[file, "--tap", "cilent"]).account().unwrap_err();
        assert!(
            missing.to_string().contains("it has client.tx, server.rx"),
            "{missing}"
        );
    }

    #[test]
    fn the_json_holds_the_metrics() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.pcapng");
        fs::write(&file, capture()).unwrap();
        let text = printed(&arguments(&[file.to_str().unwrap(), "--json"]));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["metrics"]["packets"], 4.0);
        assert_eq!(value["classes"]["syn"], 1);
        assert_eq!(value["connections"][0]["server"], "10.0.0.2:80");
    }

    #[test]
    fn one_tap_is_written_into_a_capture_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.pcapng");
        let client = folder.path().join("client.pcapng");
        fs::write(&file, capture()).unwrap();
        let (file, client) = (file.to_str().unwrap(), client.to_str().unwrap());
        let of_all = printed(&arguments(&[file, "--tap", "client", "--write", client]));
        // The extracted file has all interfaces of that tap, and no others.
        let alone = printed(&arguments(&[client, "--tap", "all"]));
        assert!(
            alone.contains("counted: client.tx (3), client.rx (1)"),
            "{alone}"
        );
        assert!(!alone.contains("not counted"), "{alone}");
        let packets = |text: &str| text[text.find("packets   ").unwrap()..][..400].to_owned();
        assert_eq!(packets(&alone), packets(&of_all));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let itself = arguments(&[file, "--write", file]).account().unwrap_err();
        assert!(
            itself.to_string().contains("choose another output file"),
            "{itself}"
        );
    }

    #[test]
    fn the_graph_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.pcapng");
        let graph = folder.path().join("page.svg");
        fs::write(&file, capture()).unwrap();
        let words = [file.to_str().unwrap(), "--plot", graph.to_str().unwrap()];
        let arguments = arguments(&words);
        let (_, sequences) = arguments.account().unwrap();
        arguments.draw(&graph, &sequences, 1).unwrap();
        assert!(fs::read_to_string(&graph).unwrap().starts_with("<svg"));
        assert!(arguments.draw(&graph, &[], 0).is_err());
    }

    #[test]
    fn failures_name_the_file_and_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.pcapng");
        let message = |file: &Path| {
            let arguments = arguments(&[file.to_str().unwrap()]);
            arguments.account().unwrap_err().to_string()
        };
        assert!(message(&file).starts_with("failed to open "));
        fs::write(&file, b"GET / HTTP/1.0\r\n").unwrap();
        assert!(message(&file).contains("page.pcapng: not a capture: it begins with 47 45 54"));
        let bytes = capture();
        fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
        let (accounting, _) = arguments(&[file.to_str().unwrap()]).account().unwrap();
        assert!(!accounting.integrity.is_whole());
        assert_eq!(accounting.packets(), 4);
    }
}
