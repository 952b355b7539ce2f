//! Joins the files that documents load: concatenates style sheets and scripts, and joins small images into sprites or
//! inlines them. Measures each joining alone, and together with the other treatments.

use fathometer_content::{Coding, KeptWhiteSpace};

use super::concatenation::Concatenations;
use super::minified::{Minifiable, minify};
use super::page_files::{
    Change, JoinedSite, Joins, MOST_BYTES, Made, MakingCost, PageFileKind, PageFiles,
};
use super::small_images::SmallImages;
use super::table::{Inlined, Row};
use super::treatment::{
    Applied, ApplyError, FileCosts, LOSSLESS_MINIFIED, Minified, STRONGEST, Sums, Text, Treatment,
    USUAL,
};

/// The codings of joined files.
const CODINGS: [Option<Coding>; 3] = [None, Some(USUAL), Some(STRONGEST)];
/// The name of the row with all treatments together.
const ALL_TOGETHER: &str = "lossless images, sprites, minified, concatenated, brotli 11";
/// The name of the row with which [`ALL_TOGETHER`] is compared if no image is treated.
const MINIFIED: &str = "minified, brotli 11";

/// The inputs for joining files.
pub struct Inputs<'a> {
    /// Returns the sums of the row with this name; for the empty name, the sums of the untreated site.
    pub page_files: &'a PageFiles,
    /// Returns the sums of the row with this name; for the empty name, returns the sums of the untreated site.
    pub bases: &'a dyn Fn(&str) -> Option<Sums>,
    /// The elements whose white space is preserved.
    pub kept: &'a KeptWhiteSpace,
    /// The bytes of the site.
    pub site_bytes: u64,
    /// The number of times that each file is created, encoded and decoded.
    pub repetitions: usize,
    /// Whether the created files are stored.
    pub retains_files: bool,
}

/// The savings by joined files.
#[derive(Debug, Default)]
pub struct Joined {
    /// A row for each coding and each kind of joining that saves a request.
    pub rows: Vec<Row>,
    /// The savings by small images as `data:` URLs.
    pub inlined: Option<Inlined>,
    /// The joined files, if they are stored.
    pub sites: Vec<JoinedSite>,
    /// The reasons for missing rows.
    pub notes: Vec<String>,
}

/// The row with which a row of joined files is compared. It determines the treatment of the texts.
#[derive(Clone, Copy, Debug)]
enum Comparison {
    /// Single files with a coding, or untreated.
    Coded(Option<Coding>),
    /// Lossless images; texts are minified and have the strongest coding.
    Minified,
}

impl Joined {
    /// Joins the files of a site in each possible way.
    pub fn of(inputs: &Inputs<'_>, mut images: SmallImages) -> Result<Joined, ApplyError> {
        let mut joined = Joined::default();
        let files = inputs.page_files;
        if files.is_full {
            let most = MOST_BYTES >> 20;
            joined.notes.push(format!(
                "no concatenation, sprites or inlining: documents, style sheets and scripts need more than {most} MiB"
            ));
            return Ok(joined);
        }
        let concatenations = joined.concatenations(files);
        joined.notes.extend(images.make(files, inputs.repetitions));
        joined.inlined = images.inlined();
        let joins = Joins {
            concatenations: None,
            images: &|_| None,
            treat: &|_, content| content.to_vec(),
            repetitions: inputs.repetitions,
        };
        let concatenated = Joins {
            concatenations: Some(&concatenations),
            ..joins
        };
        joined.add(inputs, "concatenated", files.change(&concatenated))?;

        let inlining = Joins {
            images: &|file| images.inline(file),
            ..joins
        };
        let mut change = files.change(&inlining);
        images.remove_inlined(&mut change);
        joined.add(inputs, "inlined", change)?;

        let sprites = Joins {
            images: &|file| images.apply_sprites(file),
            ..joins
        };
        let mut change = files.change(&sprites);
        images.add_sprites(&mut change);
        joined.add(inputs, "sprites", change)?;

        let both = Joins {
            concatenations: Some(&concatenations),
            ..sprites
        };
        if joined.has_site("sprites") && joined.has_site("concatenated") {
            let mut change = files.change(&both);
            images.add_sprites(&mut change);
            joined.keep("sprites, concatenated", change);
        }

        let short = |kind: PageFileKind, content: &[u8]| minified(kind, content, inputs.kept);
        let all = Joins {
            treat: &short,
            ..both
        };
        let mut change = files.change(&all);
        images.add_sprites(&mut change);
        joined.push(inputs, ALL_TOGETHER, Comparison::Minified, &change)?;
        Ok(joined)
    }

    /// Returns the concatenations of the untreated site.
    fn concatenations(&mut self, files: &PageFiles) -> Concatenations {
        let mut concatenations = Concatenations::default();
        for file in files.of(PageFileKind::Html) {
            // A document that cannot be scanned is not changed; the note on minification counts it.
            let _ = concatenations.note(&file.content, |url| file.place_of(url));
        }
        let content_of = |place: &str| Some(files.get(place)?.content.clone());
        let (_, left) = concatenations.make(content_of, |place| files.is_free(place));
        if let Some(first) = left.first() {
            self.notes.push(format!(
                "{} groups of files are not concatenated; the first: {first}",
                left.len()
            ));
        }
        concatenations
    }

    /// Adds the rows of one kind of joining, without and with codings, and the joined files.
    fn add(
        &mut self,
        inputs: &Inputs<'_>,
        name: &'static str,
        change: Change<'_>,
    ) -> Result<(), ApplyError> {
        for coding in CODINGS {
            let comparison = Comparison::Coded(coding);
            match coding {
                None => self.push(inputs, name, comparison, &change)?,
                Some(coding) => {
                    self.push(inputs, &format!("{name}, {coding}"), comparison, &change)?;
                }
            }
        }
        if inputs.retains_files && change.requests > 0 {
            self.keep(name, change);
        }
        Ok(())
    }

    fn has_site(&self, name: &str) -> bool {
        self.sites.iter().any(|site| site.name == name)
    }

    /// Stores the files of one kind of joining.
    fn keep(&mut self, name: &'static str, change: Change<'_>) {
        let files = change.made.into_iter();
        let files = files.map(|made| (made.place, made.content)).collect();
        self.sites.push(JoinedSite { name, files });
    }

    /// Adds a row if it saves a request.
    fn push(
        &mut self,
        inputs: &Inputs<'_>,
        name: &str,
        comparison: Comparison,
        change: &Change<'_>,
    ) -> Result<(), ApplyError> {
        let Some(mut sums) = comparison
            .sums(inputs.bases)
            .filter(|_| change.requests > 0)
        else {
            return Ok(());
        };
        for gone in &change.gone {
            sums.remove(gone.bytes, comparison.of(gone));
        }
        for made in &change.made {
            let applied = made.applied(comparison.coding(), inputs.repetitions)?;
            sums.add_made(made.content.len() as u64, &applied, made.others_bytes);
        }
        let mut row = Row::new(name.to_owned(), inputs.site_bytes, sums);
        row.requests_saved = Some(change.requests);
        self.rows.push(row);
        Ok(())
    }
}

impl Comparison {
    fn coding(self) -> Option<Coding> {
        match self {
            Comparison::Coded(coding) => coding,
            Comparison::Minified => Some(STRONGEST),
        }
    }

    /// Returns the sums of the row.
    fn sums(self, bases: &dyn Fn(&str) -> Option<Sums>) -> Option<Sums> {
        match self {
            Comparison::Coded(None) => bases(""),
            Comparison::Coded(Some(coding)) => bases(&coding.to_string()),
            Comparison::Minified => bases(LOSSLESS_MINIFIED).or_else(|| bases(MINIFIED)),
        }
    }

    /// Returns the result for a file in this row.
    fn of(self, file: &FileCosts) -> Option<&Applied> {
        match self {
            Comparison::Coded(Some(USUAL)) => Some(&file.usual),
            Comparison::Coded(Some(_)) => Some(&file.strongest),
            Comparison::Coded(None) => None,
            Comparison::Minified => Some(&file.minified),
        }
    }
}

impl Made {
    /// Encodes the file with a coding. Returns the result with the CPU times to create, encode and decode the file.
    fn applied(&self, coding: Option<Coding>, repetitions: usize) -> Result<Applied, ApplyError> {
        match &self.cost {
            MakingCost::Image(applied) => Ok(applied.clone()),
            MakingCost::Text(times) => {
                let text = Text {
                    content: &self.content,
                    is_html: false,
                };
                let made = Minified {
                    content: self.content.clone(),
                    times: times.clone(),
                };
                Treatment::Minified(coding).apply(text, Some(&made), repetitions)
            }
        }
    }
}

fn minified(kind: PageFileKind, content: &[u8], kept: &KeptWhiteSpace) -> Vec<u8> {
    let minifiable = match kind {
        PageFileKind::Html => Minifiable::Html,
        PageFileKind::Css => Minifiable::Css,
        PageFileKind::Script => return content.to_vec(),
    };
    minify(minifiable, content, kept).unwrap_or_else(|_| content.to_vec())
}
