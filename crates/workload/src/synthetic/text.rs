//! Text of an exact size that DEFLATE reduces to a stated fraction.
//!
//! A text is a series of 64-byte records from a pool, between a head and an end that differ between files. Each record
//! is a statement in the text's language with a payload. The payload is either random letters, which compress to three
//! quarters, or a fixed piece of prose, which compresses to almost nothing. The share of random letters sets the ratio.

use std::sync::Arc;

use fathometer_model::{Body, Seed, SharedSlice};

use super::pool::append_cyclic;
use crate::content::English;

/// Bytes of a record.
const RECORD: usize = 64;
/// The number of records in a pool. The pool has the size of eight DEFLATE windows, so DEFLATE cannot use the
/// repetition when the pool starts again.
const RECORDS: usize = 4096;
/// The minimum number of random bytes at a text's end, so that texts of equal size differ.
const OWN: usize = 12;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The language of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Language {
    Plain,
    Html,
    Css,
    Script,
    Json,
    Svg,
}

/// The fixed parts of a text.
struct Grammar {
    /// The beginning of every file.
    head: &'static str,
    /// The parts before and after a record's payload.
    record: (&'static str, &'static str),
    /// The parts before and after the file's random end; the second part ends the file.
    end: (&'static str, &'static str),
    /// The parts before and after the content of a file that is too short for the other parts.
    short: (&'static str, &'static str),
}

impl Language {
    const fn grammar(self) -> Grammar {
        match self {
            Language::Plain => Grammar {
                head: "",
                record: ("", "\n"),
                end: ("", "\n"),
                short: ("", ""),
            },
            Language::Html => Grammar {
                head: "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n<title>Page</title>\n",
                record: ("<p>", "</p>\n"),
                end: ("<p>", "</p>\n</html>\n"),
                short: ("", ""),
            },
            Language::Css => Grammar {
                head: "",
                record: (".f{--a:\"", "\"}\n"),
                end: ("/*", "*/\n"),
                short: ("/*", "*/"),
            },
            Language::Script => Grammar {
                head: "var t=[];\n",
                record: ("t.push(\"", "\");\n"),
                end: ("//", "\n"),
                short: ("//", ""),
            },
            Language::Json => Grammar {
                head: "[\n",
                record: ("\"", "\",\n"),
                end: ("\"", "\"]\n"),
                short: ("\"", "\""),
            },
            Language::Svg => Grammar {
                head: "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\">\n\
                       <path d=\"M1 1h7v7h-7z\"/>\n",
                record: ("<desc>", "</desc>\n"),
                end: ("<desc>", "</desc>\n</svg>\n"),
                short: (
                    "<svg xmlns=\"http://www.w3.org/2000/svg\"><!--",
                    "--></svg>",
                ),
            },
        }
    }

    /// Returns the name of the language's stream of random numbers.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Language::Plain => "plain",
            Language::Html => "html",
            Language::Css => "css",
            Language::Script => "script",
            Language::Json => "json",
            Language::Svg => "svg",
        }
    }

    /// Returns the fraction to which DEFLATE reduces records of random letters, which is the largest possible ratio.
    const fn incompressible(self) -> f64 {
        match self {
            Language::Plain => 0.758,
            Language::Html => 0.690,
            Language::Css => 0.656,
            Language::Script => 0.646,
            Language::Json => 0.737,
            Language::Svg => 0.621,
        }
    }

    /// Returns the statement that makes a client fetch `path`, a file of `content_type`. `None` if the language has no
    /// such statement.
    fn reference(self, path: &str, content_type: &str) -> Option<String> {
        let family = content_type.split('/').next().unwrap_or_default();
        match (self, family, content_type) {
            (Language::Html, _, "text/css") => {
                Some(format!("<link rel=stylesheet href=\"{path}\">\n"))
            }
            (Language::Html, _, "text/javascript" | "application/javascript") => {
                Some(format!("<script defer src=\"{path}\"></script>\n"))
            }
            (Language::Html, "font", _) => Some(format!(
                "<link rel=preload as=font crossorigin href=\"{path}\">\n"
            )),
            (Language::Html, "text", "text/html") => {
                Some(format!("<iframe src=\"{path}\"></iframe>\n"))
            }
            (Language::Html, "image", _) => Some(format!("<img src=\"{path}\" alt=\"\">\n")),
            (Language::Html, _, _) => Some(format!("<object data=\"{path}\"></object>\n")),
            (Language::Css, "font", _) => {
                Some(format!("@font-face{{font-family:f;src:url({path})}}\n"))
            }
            (Language::Css, _, "text/css") => Some(format!("@import \"{path}\";\n")),
            (Language::Css, _, _) => Some(format!(".f{{background:url({path})}}\n")),
            (Language::Script, "image", _) => Some(format!("new Image().src=\"{path}\";\n")),
            (Language::Script, _, _) => Some(format!("fetch(\"{path}\");\n")),
            (Language::Svg, "image", _) => Some(format!("<image href=\"{path}\"/>\n")),
            (Language::Plain | Language::Json | Language::Svg, _, _) => None,
        }
    }
}

/// Generates texts in one language.
pub(super) struct Texts {
    language: Language,
    seed: Seed,
    pool: Arc<[u8]>,
}

impl Texts {
    /// Creates a generator of texts that DEFLATE reduces to about `ratio`.
    pub fn new(language: Language, seed: Seed, ratio: f64) -> Texts {
        Texts {
            language,
            seed,
            pool: pool(language, seed, ratio).into(),
        }
    }

    /// Generates text number `index`, with `size` bytes. It contains references to `named` (path and type) in this
    /// order, until it is full.
    pub fn make<'a>(
        &self,
        index: u64,
        size: u64,
        named: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Body {
        let grammar = self.language.grammar();
        let own = self.seed.child(index);
        let shell = grammar.head.len() + grammar.end.0.len() + grammar.end.1.len();
        if size < (shell + OWN) as u64 {
            return self.short(own, size as usize).into();
        }
        let mut room = size - (shell + OWN) as u64;
        let mut frame = grammar.head.as_bytes().to_vec();
        for (path, content_type) in named {
            let Some(reference) = self.language.reference(path, content_type) else {
                break;
            };
            let Some(left) = room.checked_sub(reference.len() as u64) else {
                break;
            };
            room = left;
            frame.extend_from_slice(reference.as_bytes());
        }
        let records = room / RECORD as u64;
        let rest = OWN + (room % RECORD as u64) as usize;
        let head = frame.len();
        frame.extend_from_slice(grammar.end.0.as_bytes());
        frame.extend(letters(own, OWN));
        // The line continues like the pool's lines, so that short files have the same ratio.
        let line = own.draw(1) as usize % RECORDS * RECORD + grammar.record.0.len();
        let payload = payload_length(self.language);
        let words = self.pool[line..line + payload].iter().cycle();
        frame.extend(words.take(rest - OWN));
        frame.extend_from_slice(grammar.end.1.as_bytes());

        let frame: Arc<[u8]> = frame.into();
        let mut stretches = vec![SharedSlice::new(frame.clone(), 0..head)];
        let start = own.draw(0) as usize % RECORDS * RECORD;
        append_cyclic(&mut stretches, &self.pool, start, records * RECORD as u64);
        stretches.push(SharedSlice::new(frame.clone(), head..frame.len()));
        Body::composed(stretches)
    }

    /// Generates a text that is too short for a head and an end.
    fn short(&self, own: Seed, size: usize) -> Vec<u8> {
        let (before, after) = self.language.grammar().short;
        let Some(room) = size.checked_sub(before.len() + after.len()) else {
            // Spaces have no meaning in style sheets and scripts; 0 is a valid JSON text.
            let filler = match self.language {
                Language::Json => b'0',
                _ => b' ',
            };
            return vec![filler; size];
        };
        let mut text = before.as_bytes().to_vec();
        text.extend(letters(own, room.min(OWN)));
        let start =
            own.draw(1) as usize % RECORDS * RECORD + self.language.grammar().record.0.len();
        let words = &self.pool[start..start + payload_length(self.language)];
        text.extend(words.iter().cycle().take(room.saturating_sub(OWN)));
        text.extend_from_slice(after.as_bytes());
        text
    }
}

fn payload_length(language: Language) -> usize {
    let (before, after) = language.grammar().record;
    RECORD - before.len() - after.len()
}

/// Generates the records; the share of random letters in them sets `ratio`.
fn pool(language: Language, seed: Seed, ratio: f64) -> Vec<u8> {
    let (before, after) = language.grammar().record;
    let payload = payload_length(language);
    let share = share_of_letters(language, ratio);
    let prose = English::new(seed.stream("prose")).exactly(payload);
    let letters_seed = seed.stream("letters");
    let mut pool = Vec::with_capacity(RECORD * RECORDS);
    for record in 0..RECORDS {
        pool.extend_from_slice(before.as_bytes());
        // The random records are spread as evenly as possible, so that short and long texts have the same share of
        // them.
        if (record + 1) * share / RECORDS > record * share / RECORDS {
            pool.extend(letters(letters_seed.child(record as u64), payload));
        } else {
            pool.extend_from_slice(prose.as_bytes());
        }
        pool.extend_from_slice(after.as_bytes());
    }
    pool
}

/// Returns the number of records in a pool that are random letters, for this ratio.
///
/// The number is interpolated between three measured points: no records, one in sixteen, all. The measurement is not
/// repeated at run time, because compressors differ between processors, whereas the texts must be the same.
fn share_of_letters(language: Language, ratio: f64) -> usize {
    const FEW: f64 = 1.0 / 16.0;
    let (none, few, all) = (0.012, 0.057, language.incompressible());
    let share = if ratio < few {
        (ratio - none) / (few - none) * FEW
    } else {
        FEW + (ratio - few) / (all - few) * (1.0 - FEW)
    };
    (share.clamp(0.0, 1.0) * RECORDS as f64).round() as usize
}

/// Generates random letters, each from 6 bits.
fn letters(seed: Seed, length: usize) -> impl Iterator<Item = u8> {
    (0..length).map(move |n| {
        // One random number gives ten letters.
        let bits = seed.draw(n as u64 / 10) >> (6 * (n % 10));
        LETTERS[(bits & 63) as usize]
    })
}

#[cfg(test)]
mod tests {
    use fathometer_model::ContentCoding;

    use super::*;
    use crate::coding::encode;

    const ALL: [Language; 6] = [
        Language::Plain,
        Language::Html,
        Language::Css,
        Language::Script,
        Language::Json,
        Language::Svg,
    ];

    fn ratio_of(text: &Body) -> f64 {
        encode(ContentCoding::Deflate, &text.bytes()).len() as f64 / text.len().as_f64()
    }

    #[test]
    fn sizes_are_exact_and_bytes_are_letters() {
        for language in ALL {
            let texts = Texts::new(language, Seed(5), 0.3);
            for size in (0..700).chain([4096, 262_143, 262_144, 262_145, 1_000_000]) {
                let text = texts.make(size, size, []);
                assert_eq!(text.len().0, size, "{language:?}");
                assert!(text.bytes().is_ascii());
            }
        }
    }

    #[test]
    fn texts_compress_to_the_requested_ratio() {
        for language in ALL {
            for percent in [2, 5, 10, 20, 33, 50, 60] {
                let asked = f64::from(percent) / 100.0;
                let texts = Texts::new(language, Seed(5), asked);
                for (size, above, below) in [
                    (2048, 0.11, 0.02),
                    (4096, 0.05, 0.02),
                    (20_000, 0.02, 0.02),
                    (500_000, 0.015, 0.015),
                ] {
                    for index in 0..3 {
                        let got = ratio_of(&texts.make(index, size, []));
                        assert!(
                            (asked - below..asked + above).contains(&got),
                            "{language:?}: wanted ratio {asked}, got {got}, for {size} B"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn texts_of_one_size_differ() {
        for language in ALL {
            let texts = Texts::new(language, Seed(5), 0.3);
            for size in [60, 90, 300, 3000] {
                let [a, b] = [0, 1].map(|n| texts.make(n, size, []));
                assert_ne!(a.bytes(), b.bytes(), "{language:?} {size}");
            }
        }
    }

    #[test]
    fn json_is_json() {
        let texts = Texts::new(Language::Json, Seed(5), 0.3);
        for size in (1..300).chain([5000, 400_000]) {
            let text = texts.make(size, size, []);
            let value = serde_json::from_slice::<serde_json::Value>(&text.bytes());
            assert!(value.is_ok(), "{size}: {value:?}");
        }
    }

    #[test]
    fn references_are_written_while_there_is_room() {
        let texts = Texts::new(Language::Html, Seed(5), 0.3);
        let named: Vec<String> = (0..20).map(|n| format!("/images/{n}.gif")).collect();
        let pairs = || named.iter().map(|path| (path.as_str(), "image/gif"));
        let text = |size| {
            let bytes = texts.make(0, size, pairs()).bytes().into_owned();
            assert_eq!(bytes.len() as u64, size);
            String::from_utf8(bytes).unwrap()
        };
        let html = text(2000);
        let places: Vec<_> = named.iter().map(|path| html.find(path).unwrap()).collect();
        assert!(places.is_sorted());
        assert!(html.ends_with("</html>\n"));
        let some = text(400).matches("<img ").count();
        assert!((1..20).contains(&some), "{some}");
        assert_eq!(text(80).matches("<img ").count(), 0);
    }
}
