//! The parameters of a SURGE workload: two published sets, whose values can be replaced individually.

use fathometer_model::Bytes;

use crate::distribution::{Law, Mixture, Part};

use super::SurgeError;

/// All inputs of a SURGE workload except the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The name of the set.
    pub name: String,
    /// Number of files of the site.
    pub files: u32,
    /// Minimum number of file requests that the popularity implies; the actual number is larger.
    pub requests: u64,
    /// Number of requests for the most popular file; `None`: derived from `requests`.
    pub top_count: Option<u64>,
    /// The share of each kind of file.
    pub shares: Shares,
    /// Sizes of base files in bytes, before they are raised to `smallest` and rounded down.
    pub base_sizes: Mixture,
    /// Sizes of embedded files.
    pub embedded_sizes: Mixture,
    /// Sizes of files that are pages of their own.
    pub single_sizes: Mixture,
    /// The smallest size; smaller values are raised to it.
    pub smallest: Bytes,
    /// The law of the sizes of requested files.
    pub request_sizes: RequestSizes,
    /// The number of files of a page.
    pub references: References,
    /// The temporal locality of the page requests.
    pub locality: Locality,
    /// Seconds between the end of a page and the start of the next page (inactive OFF).
    pub off: Law,
    /// Seconds between the files of a page (active OFF); `None`: no pause.
    pub active_off: Option<Law>,
    /// Pages of a session, rounded to the nearest integer, at least 1; `None`: sessions have no end.
    pub session_pages: Option<Law>,
    /// Values of this set that no publication confirms. The report lists them.
    pub unconfirmed: Vec<String>,
}

/// Shares of the kinds of files; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Base files: pages with embedded files.
    pub base: f64,
    /// Files embedded in base files.
    pub embedded: f64,
    /// Files that are pages of their own.
    pub single: f64,
}

/// A body and a Pareto tail for the sizes of requested files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestSizes {
    /// The law below the cut; `None`: the law has only the tail.
    pub body: Option<Law>,
    /// The smallest size of the tail (the cut), k.
    pub tail_scale: f64,
    /// The tail's index, alpha.
    pub tail_shape: f64,
    /// The share of requests in the tail, p; 1 without a body.
    pub tail_share: f64,
    /// The treatment of the part of the body beyond the cut.
    pub form: BodyForm,
}

/// Two interpretations of a hybrid law whose body extends beyond the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// The body's distribution function is used unchanged. Its probability beyond the cut is added at the cut,
    /// as a jump. The original program does this.
    AsIs,
    /// The body's distribution function is divided by its value at the cut, so that there is no jump.
    Renormalised,
}

/// The number of files of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct References {
    /// Number of files of a page that has embedded files, before rounding down.
    pub law: Law,
    /// Whether the law's number includes the base file.
    pub counts_base: bool,
    /// The largest number; larger numbers are redrawn.
    pub most: u32,
    /// The assignment of the numbers to pages.
    pub order: PageOrder,
}

/// The assignment of numbers of embedded files to base files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageOrder {
    /// The most popular page has the fewest embedded files, as in the original program. The mean number of files per
    /// page is then far smaller if weighted by requests.
    PopularFewest,
    /// The numbers are assigned at random.
    Random,
}

/// The temporal locality of the sequence of pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Locality {
    /// The target of the realised distances.
    pub setting: LocalitySetting,
    /// The published law of stack distances, before rounding down.
    pub distance: Law,
    /// The law from which distances are drawn; `None`: pilot sequences calibrate the law to the target that `setting`
    /// selects.
    pub draw: Option<Law>,
    /// The largest difference between the drawn distance and the distance of the chosen page. Pilot sequences may
    /// change this window.
    pub window: u32,
    /// Upper bound of the drawn distances. If there are more pages, or if too much of the sequence would be discarded,
    /// unpopular pages are requested only in a part of the sequence.
    pub reach: u32,
    /// The approximate number of pages that are requested at one time in that case.
    pub at_once: u32,
}

/// The target of the realised stack distances. They differ from the drawn distances: among the pages near the drawn
/// distance, popular pages are preferred, which are nearer to the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalitySetting {
    /// The stack distances of the original program's output.
    Original,
    /// The published law, as closely as popularity allows.
    Law,
}

impl LocalitySetting {
    /// Returns the name of the setting, as used in the names of workloads.
    pub const fn name(self) -> &'static str {
        match self {
            LocalitySetting::Original => "original",
            LocalitySetting::Law => "law",
        }
    }

    /// Returns the law with which 5000 files and 452 279 requests match the target: mu and sigma of the decimal
    /// logarithm. Pilot sequences start with this law.
    pub(super) const fn draw(self) -> (f64, f64) {
        match self {
            LocalitySetting::Original => (1.9, 0.9),
            LocalitySetting::Law => (1.5, 0.8),
        }
    }
}

impl LocalitySetting {
    /// Like [`LocalitySetting::draw`], with the window, for a million files and ten million requests. Unpopular pages
    /// are then requested only in a part of the sequence.
    pub(super) const fn paced_draw(self) -> ((f64, f64), f64) {
        match self {
            LocalitySetting::Original => ((2.1, 1.95), 11.0),
            LocalitySetting::Law => ((1.5, 0.85), 8.0),
        }
    }
}

impl Locality {
    /// Creates the published law with this setting.
    pub const fn of(setting: LocalitySetting) -> Locality {
        let (window, reach, at_once) = match setting {
            LocalitySetting::Original => (100, 3100, 800),
            LocalitySetting::Law => (10, 20_000, 500),
        };
        Locality {
            setting,
            distance: Law::Lognormal10 {
                mu: 1.5,
                sigma: 0.80,
            },
            draw: None,
            window,
            reach,
            at_once,
        }
    }
}

impl Parameters {
    /// Returns the parameters of Barford and Crovella, "A performance evaluation of Hyper Text Transfer Protocols"
    /// (Boston University, 1998), table 8. Values that are not in the table are taken from the authors' program: mixing
    /// weights, the smallest size, the decimal logarithm of the stack distances.
    pub fn barford98(files: u32, requests: u64) -> Parameters {
        Parameters {
            name: "barford98".to_owned(),
            files,
            requests,
            top_count: None,
            shares: SHARES,
            base_sizes: hybrid(
                Law::Lognormal {
                    mu: 7.630,
                    sigma: 1.001,
                },
                10_000.0,
                1.0,
                0.07,
            ),
            embedded_sizes: Mixture::single(Law::Lognormal {
                mu: 8.215,
                sigma: 1.460,
            }),
            single_sizes: Mixture::new(vec![
                Part::of(
                    0.66,
                    Law::Lognormal {
                        mu: 7.101,
                        sigma: 1.200,
                    },
                ),
                Part::of(
                    0.34,
                    Law::Lognormal {
                        mu: 11.151,
                        sigma: 1.143,
                    },
                ),
            ])
            .expect("the weights add up to 1"),
            smallest: Bytes(75),
            request_sizes: RequestSizes {
                body: Some(Law::Lognormal {
                    mu: 7.881,
                    sigma: 1.339,
                }),
                tail_scale: 34_102.0,
                tail_shape: 1.177,
                tail_share: 0.07,
                form: BodyForm::AsIs,
            },
            references: References {
                law: Law::Pareto {
                    scale: 2.0,
                    shape: 1.245,
                },
                counts_base: true,
                most: 150,
                order: PageOrder::PopularFewest,
            },
            locality: Locality::of(LocalitySetting::Original),
            off: Law::Pareto {
                scale: 1.0,
                shape: 1.4,
            },
            active_off: None,
            session_pages: Some(Law::InverseGaussian {
                mean: 3.86,
                lambda: 6.08,
            }),
            unconfirmed: Vec::new(),
        }
    }

    /// Returns the parameters of the first version: Barford and Crovella, "Generating representative workloads for
    /// network and server performance evaluation" (SIGMETRICS '98).
    ///
    /// This version has one law for the sizes of all files, no sessions, and pauses between the files of a page. All
    /// its numbers except the active OFF times are unconfirmed. These values from the later version may not apply here
    /// and are also unconfirmed: shares of kinds, the smallest size, the logarithm of the stack distance, the largest
    /// number of embedded files. `unconfirmed` lists all of them.
    pub fn sigmetrics98(files: u32, requests: u64) -> Parameters {
        let sizes = hybrid(
            Law::Lognormal {
                mu: 9.357,
                sigma: 1.318,
            },
            133_000.0,
            1.1,
            0.07,
        );
        Parameters {
            name: "sigmetrics98".to_owned(),
            base_sizes: sizes.clone(),
            embedded_sizes: sizes.clone(),
            single_sizes: sizes,
            request_sizes: RequestSizes {
                body: None,
                tail_scale: 1000.0,
                tail_shape: 1.0,
                tail_share: 1.0,
                form: BodyForm::AsIs,
            },
            references: References {
                law: Law::Pareto {
                    scale: 1.0,
                    shape: 2.43,
                },
                counts_base: false,
                most: 150,
                order: PageOrder::PopularFewest,
            },
            off: Law::Pareto {
                scale: 1.0,
                shape: 1.5,
            },
            // The known output of the original program is from the later version.
            locality: Locality::of(LocalitySetting::Law),
            active_off: Some(Law::Weibull {
                shape: 0.382,
                scale: 1.46,
            }),
            session_pages: None,
            unconfirmed: [
                "file sizes: lognormal(mu = 9.357, sigma = 1.318) below Pareto(k = 133 000, \
                 alpha = 1.1), 7 % in the tail",
                "request sizes: Pareto(k = 1000, alpha = 1)",
                "embedded references: Pareto(k = 1, alpha = 2.43), not counting the base file",
                "OFF times: Pareto(k = 1, alpha = 1.5)",
                "active OFF times: the use of 1.46 as the Weibull law's scale and 0.382 as its shape",
                "stack distances: that 1.5 and 0.80 are the mean and deviation of the decimal logarithm, as \
                 in the later version",
                "file sizes: shares of base, embedded and single files and the smallest size are \
                 those of the later version",
                "embedded references: at most 150 files per page, as in the later version",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..Parameters::barford98(files, requests)
        }
    }

    /// Returns notes for readers: the unconfirmed parameters, and the law that the load engine does not apply.
    pub fn notes(&self) -> Vec<String> {
        let unconfirmed = self.unconfirmed.iter();
        let mut notes: Vec<String> = unconfirmed
            .map(|text| format!("unconfirmed: {text}"))
            .collect();
        notes.extend(self.active_off.map(|_| ACTIVE_OFF.to_owned()));
        notes
    }

    /// Rejects parameters from which no workload can be generated.
    pub(super) fn check(&self) -> Result<(), SurgeError> {
        let refuse = |rule: &'static str| Err(SurgeError::Parameter { rule });
        let shares = [self.shares.base, self.shares.embedded, self.shares.single];
        if shares.iter().any(|share| !(0.0..=1.0).contains(share))
            || (shares.iter().sum::<f64>() - 1.0).abs() > 1e-9
        {
            return refuse(
                "the shares of base, embedded and single files must be from 0 to 1 and add up to 1",
            );
        }
        let sizes = [&self.base_sizes, &self.embedded_sizes, &self.single_sizes];
        for part in sizes.iter().flat_map(|sizes| sizes.parts()) {
            part.law.check()?;
            // If a law has no probability below the limit, redrawing would never end.
            if part.below <= 0.0 || part.law.cdf(part.below) <= 0.0 {
                return refuse("each part of the file sizes must have values below its limit");
            }
        }
        let tail = &self.request_sizes;
        if !(tail.tail_scale > 0.0 && tail.tail_shape > 0.0 && tail.tail_scale.is_finite()) {
            return refuse("k and alpha of the request sizes' tail must be above 0");
        }
        if !(0.0..=1.0).contains(&tail.tail_share) || tail.body.is_none() && tail.tail_share != 1.0
        {
            return refuse(
                "the share of the request sizes' tail must be from 0 to 1, and 1 without a body",
            );
        }
        let laws = [
            Some(self.references.law),
            Some(self.locality.distance),
            self.locality.draw,
            Some(self.off),
            self.request_sizes.body,
            self.active_off,
            self.session_pages,
        ];
        for law in laws.into_iter().flatten() {
            law.check()?;
        }
        let fewest = 1.0 + f64::from(u8::from(self.references.counts_base));
        if self.references.most > u32::from(u16::MAX)
            || self.references.law.quantile(0.0) < fewest
            || self
                .references
                .law
                .cdf(f64::from(self.references.most) + 1.0)
                <= 0.0
        {
            return refuse(
                "embedded files of a page: the law must give at least 1 and must have values up to the \
                 maximum, and the maximum must be below 65 536",
            );
        }
        let draw = self.locality.draw.unwrap_or(self.locality.distance);
        if self.locality.distance.cdf(1.0) <= 0.0 || draw.cdf(1.0) <= 0.0 {
            return refuse("the laws of stack distances must have values below 1");
        }
        if self.locality.at_once == 0 || self.locality.reach == 0 {
            return refuse(
                "the number of pages at one time and the bound of stack distances must be at least 1",
            );
        }
        Ok(())
    }
}

/// A note for parameters with active OFF times.
const ACTIVE_OFF: &str = "active OFF times are fitted, but not applied: a user requests the files of a page without \
 pauses between them";

const SHARES: Shares = Shares {
    base: 0.30,
    embedded: 0.38,
    single: 0.32,
};

/// The cap of heavy tails. With an index of 1, the mean increases without limit with the logarithm of this cap. One in
/// a thousand files in the later version's tail is capped.
const TAIL_CAP: f64 = 10_000_000.0;

/// Creates a body that is redrawn at and above `cut`, and a Pareto tail from `cut` on.
fn hybrid(body: Law, cut: f64, shape: f64, tail_share: f64) -> Mixture {
    let body = Part {
        below: cut,
        ..Part::of(1.0 - tail_share, body)
    };
    let tail = Part {
        cap: TAIL_CAP,
        ..Part::of(tail_share, Law::Pareto { scale: cut, shape })
    };
    Mixture::new(vec![body, tail]).expect("the weights add up to 1")
}
