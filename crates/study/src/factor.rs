//! Factors: the properties that a study can vary, and the parsers of their levels.
//!
//! A [`Factor`] is declared once, as a static: its name, its levels with their parser, its level in studies without the
//! factor, and its meaning. An experiment lists its factors as [`AnyFactor`]. So the parser that the replicates use
//! checks every level of a study before the first replicate.

use std::fmt::Display;
use std::str::FromStr;

use fathometer_lab::nearest;

use super::spec::Cell;

/// A factor with levels of type `T`.
#[derive(Debug, Clone, Copy)]
pub struct Factor<T: 'static> {
    name: &'static str,
    meaning: &'static str,
    levels: Levels<T>,
    absent: Option<&'static str>,
}

/// The levels of a factor and their parser.
#[derive(Debug, Clone, Copy)]
enum Levels<T: 'static> {
    /// Only these words.
    Words(&'static [(&'static str, T)]),
    /// Any text that the parser accepts, including these words.
    Text {
        words: &'static [&'static str],
        parse: fn(&str) -> Result<T, String>,
    },
}

/// The reason why a level cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the study has {factor}={level}: {reason}")]
pub struct LevelError {
    /// The factor.
    pub factor: &'static str,
    /// The level.
    pub level: String,
    /// The cause, which names the accepted levels.
    pub reason: String,
}

impl LevelError {
    /// Returns the error for this level.
    pub(crate) fn new(factor: &'static str, level: &str, reason: impl Into<String>) -> LevelError {
        LevelError {
            factor,
            level: level.to_owned(),
            reason: reason.into(),
        }
    }
}

impl<T: Clone> Factor<T> {
    /// A factor that every study must have, with only these levels.
    pub(crate) const fn words(
        name: &'static str,
        meaning: &'static str,
        words: &'static [(&'static str, T)],
    ) -> Factor<T> {
        Factor {
            name,
            meaning,
            levels: Levels::Words(words),
            absent: None,
        }
    }

    /// A factor that every study must have, with all levels that `parse` accepts, including `words`. An error of
    /// `parse` names the accepted levels.
    pub(crate) const fn text(
        name: &'static str,
        meaning: &'static str,
        words: &'static [&'static str],
        parse: fn(&str) -> Result<T, String>,
    ) -> Factor<T> {
        Factor {
            name,
            meaning,
            levels: Levels::Text { words, parse },
            absent: None,
        }
    }

    /// Returns the same factor, with the level `absent` in studies without the factor.
    pub(crate) const fn or(self, absent: &'static str) -> Factor<T> {
        Factor {
            absent: Some(absent),
            ..self
        }
    }

    /// The name of the factor.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value of the cell's level.
    pub(crate) fn of(&self, cell: &Cell) -> Result<T, LevelError> {
        match (cell.level(self.name), self.absent) {
            ("", Some(absent)) => self.parse(absent),
            (level, _) => self.parse(level),
        }
    }

    /// Parses a level into its value.
    pub(crate) fn parse(&self, level: &str) -> Result<T, LevelError> {
        let known: Vec<&str> = self.known();
        let refused = |reason: String| {
            let hint = nearest::suggestion(level, known.iter().copied());
            LevelError::new(self.name, level, format!("{reason}{hint}"))
        };
        match self.levels {
            Levels::Words(words) => words
                .iter()
                .find(|(word, _)| *word == level)
                .map(|(_, value)| value.clone())
                .ok_or_else(|| refused(format!("it can be {}", known.join(" or ")))),
            Levels::Text { parse, .. } => parse(level).map_err(refused),
        }
    }

    fn known(&self) -> Vec<&'static str> {
        match self.levels {
            Levels::Words(words) => words.iter().map(|(word, _)| *word).collect(),
            Levels::Text { words, .. } => words.to_vec(),
        }
    }
}

/// A factor without the type of its levels.
pub trait AnyFactor: Sync {
    /// The name of the factor in a study's file.
    fn name(&self) -> &'static str;
    /// The meaning of the factor, in one sentence.
    fn meaning(&self) -> &'static str;
    /// The level in studies without the factor; `None` if every study must have the factor.
    fn absent(&self) -> Option<&'static str>;
    /// The levels that are words.
    fn words(&self) -> Vec<&'static str>;
    /// Whether these words are the only levels of the factor.
    fn is_closed(&self) -> bool;
    /// Checks a level.
    ///
    /// # Errors
    /// When the level cannot be used. The error names the accepted levels and the nearest word.
    fn check(&self, level: &str) -> Result<(), LevelError>;
}

impl<T: Clone + Sync + 'static> AnyFactor for Factor<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn absent(&self) -> Option<&'static str> {
        self.absent
    }

    fn words(&self) -> Vec<&'static str> {
        self.known()
    }

    fn is_closed(&self) -> bool {
        matches!(self.levels, Levels::Words(_))
    }

    fn check(&self, level: &str) -> Result<(), LevelError> {
        self.parse(level).map(drop)
    }
}

/// Parses a level with the `FromStr` implementation of its type.
pub(crate) fn parsed<T>(level: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    level.parse().map_err(|error: T::Err| error.to_string())
}

/// Parses a value. Returns `None` if the level equals the word in `none`.
pub(crate) fn unless<T>(none: &str, level: &str) -> Result<Option<T>, String>
where
    T: FromStr,
    T::Err: Display,
{
    match level == none {
        true => Ok(None),
        false => parsed(level)
            .map(Some)
            .map_err(|error| format!("it can be {none} or a number: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CLOSE: Factor<bool> =
        Factor::words("close", "how", &[("half", false), ("full", true)]).or("half");
    static SETS: Factor<usize> = Factor::text("sets", "how many", &[], parsed);

    fn cell(factor: &str, level: &str) -> Cell {
        Cell {
            block: "main".to_owned(),
            key: fathometer_model::CellKey::default(),
            levels: [(factor.to_owned(), level.to_owned())].into(),
            replicates: 1,
        }
    }

    #[test]
    fn a_cell_without_the_factor_has_its_absent_level() {
        assert_eq!(CLOSE.of(&cell("close", "full")), Ok(true));
        assert_eq!(CLOSE.of(&cell("sets", "2")), Ok(false));
        assert_eq!(SETS.of(&cell("sets", "2")), Ok(2));
        let error = SETS.of(&cell("close", "full")).unwrap_err();
        assert_eq!((error.factor, error.level.as_str()), ("sets", ""));
    }

    #[test]
    fn an_unknown_level_is_refused_with_the_accepted_and_the_nearest() {
        let error = CLOSE.check("hal").unwrap_err().to_string();
        assert_eq!(
            error,
            "the study has close=hal: it can be half or full; did you mean \"half\"?"
        );
        assert!(SETS.check("two").is_err());
    }
}
