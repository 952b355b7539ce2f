//! Converts the images of a site to other formats, and re-encodes them.

mod proposals;
mod shown;

use std::path::{Path, PathBuf};

use fathometer_analysis::content_page::{ImageFile, ImagePair, Replaced};
use fathometer_content::image::{
    Format, Image, ImageError, ImageTreatment, Limits, SSIM_DEFINITION,
};

use self::proposals::Proposals;
use self::shown::Shown;
use super::Options;
use super::place::{location, place};
use super::small_images::SmallImages;
use super::source::SiteFile;
use super::table::{Distortion, Row};
use super::treatment::{Applied, FileCosts, LOSSLESS_MINIFIED, Sums, timed};

/// The maximum number of frames in an animation; more frames are an error.
pub const MOST_FRAMES: u32 = 10_000;
/// The name of the row with the lossless treatments and the strongest coding together.
const TOGETHER: &str = "lossless images, brotli 11 for the rest";

/// The images of a site: sums over all files.
#[derive(Debug)]
pub struct Pictures {
    /// The number of images, identified by their first bytes or their names.
    pub images: u64,
    /// The number of images that could not be treated.
    pub failed: u64,
    limits: Limits,
    repetitions: usize,
    treated: Vec<Sum>,
    together: Sums,
    minified: Sums,
    /// The images shown in the HTML page.
    shown: Shown,
    /// The images that HTML and CSS could replace.
    proposals: Proposals,
    /// The small images that can be joined.
    small: SmallImages,
    folder: PathBuf,
}

/// The sums of one treatment.
#[derive(Debug)]
struct Sum {
    treatment: ImageTreatment,
    sums: Sums,
    images: u64,
    similarities: Similarities,
}

/// The SSIM values of the images after a lossy treatment.
#[derive(Clone, Copy, Debug)]
struct Similarities {
    images: u64,
    sum: f64,
    least: f64,
}

/// A treated image.
#[derive(Clone, Debug)]
struct Treated {
    file: Vec<u8>,
    applied: Applied,
    /// The SSIM, if the image was changed and is not smaller than the SSIM window.
    similarity: Option<f64>,
}

impl Pictures {
    /// Creates sums without any image.
    pub fn new(options: &Options) -> Pictures {
        let repetitions = usize::from(options.repeat);
        let treatments = [
            ImageTreatment::GifToPng,
            ImageTreatment::GifToApng,
            ImageTreatment::OptimisePng,
            ImageTreatment::ToWebp,
            ImageTreatment::Jpeg(options.jpeg_quality),
        ];
        let treatments = treatments.into_iter();
        #[cfg(feature = "avif")]
        let treatments = treatments.chain(options.avif.then_some(ImageTreatment::ToAvif));
        Pictures {
            images: 0,
            failed: 0,
            limits: Limits {
                pixels: options.max_pixels,
                frames: MOST_FRAMES,
            },
            repetitions,
            treated: treatments
                .map(|treatment| Sum::new(treatment, repetitions))
                .collect(),
            together: Sums::new(repetitions),
            minified: Sums::new(repetitions),
            shown: Shown::new(match options.shows_images {
                true => options.files,
                false => 0,
            }),
            proposals: Proposals::new(&options.site),
            small: SmallImages::default(),
            folder: options.site.clone(),
        }
    }

    /// Returns the images shown in the HTML page, in descending order of their savings, and the reason why other images
    /// are not shown.
    pub fn take_shown(&mut self) -> (Vec<ImagePair>, Option<String>) {
        std::mem::take(&mut self.shown).finish()
    }

    /// Returns the images that HTML and CSS could replace, in descending order of their savings, and notes on images
    /// without a proposal.
    pub fn take_proposals(&mut self) -> (Vec<Replaced>, Vec<String>) {
        self.proposals.take()
    }

    /// Returns the small images that can be joined.
    pub fn take_small(&mut self) -> SmallImages {
        std::mem::take(&mut self.small)
    }

    /// Returns the names of the treatments, in the order of the indices of [`Pictures::treat`].
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.treated.iter().map(|sum| sum.treatment.to_string())
    }

    /// Treats the file if it is an image, and adds the file to the sums in any case. `costs` contains the results of
    /// codings and receives the smallest lossless result. Returns the smallest number of bytes, and the index of the
    /// treatment with this result.
    pub fn treat(
        &mut self,
        file: &SiteFile,
        costs: &mut FileCosts,
    ) -> Result<Option<(u64, usize)>, ImageError> {
        let bytes = file.content.len() as u64;
        if file.is_html() {
            self.proposals.note_document(file);
        }
        let (treated, result) = self.apply_all(file);
        let mut fewest = None;
        let (mut lossless, mut minified) = (&costs.strongest, &costs.minified);
        for (index, (sum, treated)) in self.treated.iter_mut().zip(&treated).enumerate() {
            let Some(Treated {
                applied,
                similarity,
                ..
            }) = treated
            else {
                sum.sums.add(bytes, None);
                continue;
            };
            sum.images += 1;
            let needed = sum.sums.add(bytes, Some(applied));
            if let &Some(similarity) = similarity
                && applied.bytes < bytes
            {
                sum.similarities.add(similarity);
            }
            if sum.treatment.is_lossless() {
                for least in [&mut lossless, &mut minified] {
                    if applied.bytes < least.bytes {
                        *least = applied;
                    }
                }
            }
            fewest = Some(fewest.map_or((needed, index), |least: (u64, usize)| {
                least.min((needed, index))
            }));
        }
        self.together.add(bytes, Some(lossless));
        self.minified.add(bytes, Some(minified));
        costs.minified = minified.clone();
        if let Some((authority, target)) = location(&self.folder, file) {
            let place = place(&authority, &target);
            self.small.sprites.note_costs(&place, costs);
            self.small.inlining.note_costs(&place, costs);
        }
        self.show(&file.path, &file.content, treated);
        match result {
            Ok(()) => Ok(fewest),
            Err(error) => {
                self.failed += 1;
                Err(error)
            }
        }
    }

    /// Stores the image for the HTML page if its saving is one of the largest.
    fn show(&mut self, path: &Path, content: &[u8], treated: Vec<Option<Treated>>) {
        let smallest = treated
            .into_iter()
            .zip(&self.treated)
            .filter_map(|(treated, sum)| Some((treated?, sum.treatment)))
            .min_by_key(|(treated, _)| treated.file.len());
        let (Some((treated, treatment)), Some(format)) = (smallest, Format::of(content)) else {
            return;
        };
        self.shown.add(content.len(), treated.file.len(), || {
            let distortion = match (treatment.is_lossless(), treated.similarity) {
                (true, _) => "the same pixels".to_owned(),
                (false, Some(similarity)) => format!("SSIM {similarity:.4}"),
                (false, None) => "too small for an SSIM".to_owned(),
            };
            ImagePair {
                path: path.display().to_string(),
                original: ImageFile {
                    media_type: format.media_type(),
                    content: content.to_vec(),
                },
                treated: ImageFile {
                    media_type: treatment.format().media_type(),
                    content: treated.file,
                },
                treatment: treatment.to_string(),
                distortion,
            }
        });
    }

    /// Applies each applicable treatment. If a treatment fails, the earlier results remain.
    fn apply_all(&mut self, file: &SiteFile) -> (Vec<Option<Treated>>, Result<(), ImageError>) {
        let content = &file.content;
        let mut treated = vec![None; self.treated.len()];
        let format = match format_of(file.name(), content) {
            Ok(None) => return (treated, Ok(())),
            Ok(Some(format)) => {
                self.images += 1;
                format
            }
            Err(error) => {
                self.images += 1;
                return (treated, Err(error));
            }
        };
        // The pixels are not decoded, because no treatment converts these formats.
        if matches!(format, Format::Webp | Format::Avif) {
            return (treated, Ok(()));
        }
        let image = match Image::decode(format, content, self.limits) {
            Ok(image) => image,
            Err(ImageError::NotApplicable(_)) => return (treated, Ok(())),
            Err(error) => return (treated, Err(error)),
        };
        self.proposals.note_image(file, format, image.picture());
        if let Some((authority, target)) = location(&self.folder, file) {
            let place = place(&authority, &target);
            self.small
                .inlining
                .note_image(place.clone(), format.media_type(), content);
            self.small
                .sprites
                .note_image(place, image.picture(), content.len());
        }
        for (sum, slot) in self.treated.iter().zip(&mut treated) {
            if !sum.treatment.applies_to(&image) {
                continue;
            }
            match apply(sum.treatment, &image, self.repetitions) {
                Ok(result) => *slot = Some(result),
                Err(ImageError::NotApplicable(_)) => {}
                Err(error) => return (treated, Err(error)),
            }
        }
        (treated, Ok(()))
    }

    /// Returns the rows of the treatments that applied to an image, and the row of all lossless treatments together.
    pub fn into_rows(self, site_bytes: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut is_treated = false;
        for sum in self.treated {
            if sum.images == 0 {
                continue;
            }
            is_treated |= sum.treatment.is_lossless();
            let mut row = Row::new(sum.treatment.to_string(), site_bytes, sum.sums);
            row.images = Some(sum.images);
            row.distortion = sum.similarities.summary();
            rows.push(row);
        }
        if is_treated {
            rows.push(Row::new(TOGETHER.to_owned(), site_bytes, self.together));
            rows.push(Row::new(
                LOSSLESS_MINIFIED.to_owned(),
                site_bytes,
                self.minified,
            ));
        }
        rows
    }
}

/// Returns the format of a file if it is an image, determined by its first bytes or its name.
pub fn format_of(path: &Path, content: &[u8]) -> Result<Option<Format>, ImageError> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let found = Format::of(content);
    match Format::of_extension(&extension) {
        Some(named) if found != Some(named) => Err(ImageError::Mislabelled { named, found }),
        _ => Ok(found),
    }
}

/// Treats the image `repetitions` times, and compares the decoded result with the image.
fn apply(
    treatment: ImageTreatment,
    image: &Image<'_>,
    repetitions: usize,
) -> Result<Treated, ImageError> {
    let mut applied = Applied::default();
    let mut similarity = None;
    let mut file = Vec::new();
    for repetition in 0..repetitions {
        let (treated, encoding) = timed(|| treatment.encode(image));
        let treated = treated?;
        let (decoded, decoding) = timed(|| treatment.decode(image, &treated));
        let decoded = decoded?;
        if repetition == 0 {
            similarity = treatment.distortion(image, &decoded)?;
        }
        drop(decoded);
        let decoding = treatment.has_decoder().then_some(decoding);
        applied.push(treated.file.len(), encoding, decoding);
        file = treated.file;
    }
    Ok(Treated {
        file,
        applied,
        similarity,
    })
}

impl Sum {
    fn new(treatment: ImageTreatment, repetitions: usize) -> Sum {
        let mut sums = Sums::new(repetitions);
        if !treatment.has_decoder() {
            sums.decode_s.clear();
        }
        Sum {
            treatment,
            sums,
            images: 0,
            similarities: Similarities {
                images: 0,
                sum: 0.0,
                least: 1.0,
            },
        }
    }
}

impl Similarities {
    fn add(&mut self, similarity: f64) {
        self.images += 1;
        self.sum += similarity;
        self.least = self.least.min(similarity);
    }

    fn summary(self) -> Option<Distortion> {
        (self.images > 0).then(|| Distortion {
            ssim_mean: self.sum / self.images as f64,
            ssim_least: self.least,
            images: self.images,
            definition: SSIM_DEFINITION,
        })
    }
}
