//! Sentences and labels in the style of a portal of 1997.

use fathometer_model::Seed;

use super::Draws;
use super::words::*;

/// English text generated from one seed.
///
/// DEFLATE reduces 20 kB of this text to about a third, as for real prose.
#[derive(Debug, Clone)]
pub struct English {
    draws: Draws,
}

impl English {
    /// Creates the text of `seed`, from its beginning.
    pub fn new(seed: Seed) -> English {
        English {
            draws: Draws::new(seed),
        }
    }

    /// Returns a label of two or three words, as in the text of a link: `secure servers`.
    pub fn label(&mut self) -> String {
        let noun = self.noun();
        match self.draws.below(4) {
            0 => format!("{} {noun}", self.draws.pick(ACTIONS)),
            1 => format!("{} {noun}", self.adjective()),
            2 => format!("{} for {noun}", self.product()),
            _ => format!("{noun} and {}", self.noun()),
        }
    }

    /// Returns a fictitious product with a version number: `Velocast 3.1`.
    pub fn product(&mut self) -> String {
        format!(
            "{}{}{} {}.{}",
            self.draws.pick(FIRST_SYLLABLES),
            self.draws.pick(MIDDLE_SYLLABLES),
            self.draws.pick(LAST_SYLLABLES),
            1 + self.draws.below(8),
            self.draws.below(10),
        )
    }

    /// Returns a headline without a full stop: `Meridian ships portable previews`.
    pub fn headline(&mut self) -> String {
        let maker = self.draws.pick(MAKERS);
        let verb = self.draws.pick(VERBS);
        if self.draws.one_in(2) {
            return format!("{maker} {verb} {}", self.product());
        }
        let adjective = self.adjective();
        let noun = self.noun();
        if self.draws.one_in(3) {
            format!(
                "{maker} {verb} {adjective} {noun} in {}",
                self.draws.pick(PLACES)
            )
        } else {
            format!("{maker} {verb} {adjective} {noun}")
        }
    }

    /// Returns a sentence, including its full stop.
    pub fn sentence(&mut self) -> String {
        match self.draws.below(6) {
            0 => format!("{}.", self.headline()),
            1 => format!(
                "{} the {} {} from {} and {} your {} {}.",
                capitalised(self.draws.pick(ACTIONS)),
                self.adjective(),
                self.noun(),
                self.draws.pick(MAKERS),
                self.draws.pick(ACTIONS),
                self.noun(),
                self.draws.pick(CLOSERS),
            ),
            2 => format!(
                "With {} {} and {} {}, {} {} {} {}.",
                self.adjective(),
                self.noun(),
                self.adjective(),
                self.noun(),
                self.draws.pick(MAKERS),
                self.draws.pick(VERBS),
                self.noun(),
                self.draws.pick(CLOSERS),
            ),
            3 => format!(
                "{} brings {} {} to {} {}.",
                self.product(),
                self.adjective(),
                self.noun(),
                self.noun(),
                self.draws.pick(CLOSERS),
            ),
            4 => format!(
                "Our {} {} show how {} and {} work together {}.",
                self.adjective(),
                self.noun(),
                self.noun(),
                self.noun(),
                self.draws.pick(CLOSERS),
            ),
            _ => format!(
                "{} from {} {} {} {}.",
                capitalised(self.noun()),
                self.draws.pick(PLACES),
                ["need", "meet", "welcome", "use"][self.draws.below(4)],
                self.adjective(),
                self.noun(),
            ),
        }
    }

    /// Returns prose of exactly `length` bytes: whole words, and a full stop at the end if it fits.
    pub fn exactly(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length);
        let longest = BY_LENGTH.len();
        loop {
            let sentence = self.sentence();
            let space = usize::from(!text.is_empty());
            if text.len() + space + sentence.len() > length {
                break;
            }
            if space == 1 {
                text.push(' ');
            }
            text.push_str(&sentence);
        }
        while text.len() < length {
            let left = length - text.len();
            // A word of n letters takes n + 1 bytes with its space, so one remaining byte could not be filled.
            let word = match left {
                1 => {
                    text.push('.');
                    break;
                }
                _ if left > longest + 2 => BY_LENGTH[2 + self.draws.below(longest - 4)],
                _ if left > longest => BY_LENGTH[2],
                _ => BY_LENGTH[left - 2],
            };
            text.push(' ');
            text.push_str(word);
        }
        text
    }

    /// Returns a path segment of words, as in `secure-servers`.
    pub fn slug(&mut self) -> String {
        match self.draws.below(3) {
            0 => format!("{}-{}", self.adjective(), self.noun()),
            _ => self.noun().to_owned(),
        }
    }

    fn adjective(&mut self) -> &'static str {
        self.draws.pick(ADJECTIVES)
    }

    fn noun(&mut self) -> &'static str {
        self.draws.pick(NOUNS)
    }
}

/// Converts the first letter of `text` to upper case.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::ContentCoding;

    use super::*;
    use crate::coding::encode;

    #[test]
    fn words_to_end_with_have_the_length_of_their_place() {
        for (n, word) in BY_LENGTH.iter().enumerate() {
            assert_eq!(word.len(), n + 1, "{word}");
        }
    }

    #[test]
    fn exactly_is_exact_at_every_length() {
        for length in 0..400 {
            let text = English::new(Seed(length as u64)).exactly(length);
            assert_eq!(text.len(), length);
            assert!(text.is_ascii());
        }
    }

    #[test]
    fn synthetic_text_compresses_like_prose() {
        let text = English::new(Seed(1)).exactly(20_000);
        let coded = encode(ContentCoding::Deflate, text.as_bytes()).len();
        let ratio = coded as f64 / text.len() as f64;
        assert!((0.30..0.36).contains(&ratio), "{ratio}");
    }
}
