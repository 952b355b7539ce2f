//! Arguments of `fathometer serve` about content negotiation.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use fathometer_http::origin::negotiation::{CompressionOptions, Compressor, Levels, Negotiation};
use fathometer_model::Bytes;

use super::dictionaries::{self, Contents, DictionaryArgument};
use crate::command::arguments::size;
use crate::command::{Failure, usage};
use fathometer_origin::LibraryEncoders;
use fathometer_sys::stderr::say;

/// Arguments of `serve` about content negotiation.
#[derive(Debug, Args)]
#[command(next_help_heading = "Content negotiation")]
pub struct NegotiationArguments {
    /// Also serve variants beside a file, selected by Accept-Encoding and Accept: x.br and x.zst beside x (x.gz and
    /// x.deflate are always served), and x.webp and x.avif beside x.png, x.jpg or x.gif
    #[arg(long)]
    negotiate: bool,
    /// Compress content on the fly in these codings, the preferred one first, each with a level: some of gzip
    /// (1 to 9), br (0 to 6), zstd (1 to 9) and deflate (1 to 9), as in br:4,zstd:3,gzip:6
    #[arg(long, value_name = "LIST")]
    compress: Option<Levels>,
    /// Minimum size of content to compress on the fly, in bytes; at most --compress-up-to
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256", requires = "compress")]
    compress_from: u64,
    /// Maximum size of content to compress on the fly, in bytes
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8M", requires = "compress")]
    compress_up_to: u64,
    /// Memory limit for content compressed on the fly, in bytes: in the cache, in responses and in progress. If
    /// responses use all of it, content is sent without a coding
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64M", requires = "compress")]
    compress_memory: u64,
    /// Offer the file at PATH as a compression dictionary (Use-As-Dictionary, RFC 9842); clients that have it get dcb
    /// or dcz: PATH[,match=PATTERN][,id=ID][,max-age=TIME][,previous=FILE]…. match: the paths to compress with it,
    /// where * is any text [default: PATH]. max-age: sent in Cache-Control, because clients use only fresh
    /// dictionaries. previous: an earlier version of the file, which clients may have. Files are read at start, at
    /// most 2 MiB each. Needs br or zstd in --compress, and TLS or a loopback address. May be given several times
    #[arg(long = "dictionary", value_name = "PATH,…", value_parser = dictionaries::read, requires = "compress")]
    dictionaries: Vec<DictionaryArgument>,
}

impl NegotiationArguments {
    /// Checks that the sizes permit compression, and that dictionaries can be used on these addresses.
    pub fn check(&self, is_tls: bool, addresses: &[SocketAddr]) -> Result<(), Failure> {
        if self.compress_from > self.compress_up_to {
            return Err(usage(format!(
                "--compress-from ({}) is above --compress-up-to ({}), so no content would be compressed: lower the \
                 first, or raise the second",
                Bytes(self.compress_from),
                Bytes(self.compress_up_to)
            )));
        }
        if self.dictionaries.is_empty() {
            return Ok(());
        }
        match &self.compress {
            Some(levels) if levels.can_use_dictionaries() => {}
            _ => return Err(usage("--dictionary needs br or zstd in --compress")),
        }
        dictionaries::check_addresses(is_tls, addresses)
    }

    /// Returns the origin's settings; all event loops share them.
    pub fn negotiation(&self, contents: Contents<'_>) -> Result<Negotiation, Failure> {
        let compressor = |levels: &Levels| {
            let options = CompressionOptions {
                levels: levels.clone(),
                from: Bytes(self.compress_from),
                up_to: Bytes(self.compress_up_to),
                memory: Bytes(self.compress_memory),
            };
            Arc::new(Compressor::new(options, Box::new(LibraryEncoders)))
        };
        Ok(Negotiation {
            images: self.negotiate,
            compressor: self.compress.as_ref().map(compressor),
            dictionaries: dictionaries::load(&self.dictionaries, contents)?.into(),
        })
    }

    /// Whether variants beside a file (`.br`, `.zst`, `.webp`, `.avif`) are served.
    pub fn has_later_codings(&self) -> bool {
        self.negotiate
    }
}

/// Prints the number of representations that were compressed on the fly.
pub fn report(negotiation: &Negotiation) {
    if let Some(compressor) = &negotiation.compressor {
        let (compressed, reused) = compressor.take_counts();
        say(format_args!(
            "{compressed} representations were compressed on the fly; {reused} responses reused one of them"
        ));
        if !negotiation.dictionaries.is_empty() {
            say(format_args!(
                "{} responses were compressed with a dictionary of the client",
                compressor.take_with_dictionary()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[command(flatten)]
        negotiation: NegotiationArguments,
    }

    fn check(words: &str) -> Result<(), String> {
        let words = std::iter::once("serve").chain(words.split_whitespace());
        let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
        let checked = arguments.negotiation.check(false, &[]);
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_have_units_and_must_permit_compression() {
        for good in [
            "",
            "--compress gzip",
            "--compress gzip --compress-from 1k",
            "--compress gzip --compress-from 8M --compress-up-to 8M",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, reason) in [
            ("--compress-from 1k", "--compress <LIST>"),
            ("--compress-up-to 1k", "--compress <LIST>"),
            ("--compress gzip --compress-from 1x", "is not a size"),
            (
                "--compress gzip --compress-from 9M",
                "above --compress-up-to",
            ),
            (
                "--compress gzip --compress-up-to 255",
                "above --compress-up-to",
            ),
        ] {
            let said = check(bad).unwrap_err();
            assert!(said.contains(reason), "{bad}: {said}");
        }
    }
}
