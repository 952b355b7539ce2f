//! Creates the HTML page of a `content` result.

use fathometer_analysis::content_page::{
    self, ContentReport, FileSaving, ImagePair, Replaced, Treatment,
};
use fathometer_model::digits::grouped;

use super::table::{Report, Row, spread};

/// Creates the page, with the images before and after treatment, and the images that HTML and CSS could replace.
pub fn page(report: &Report, images: Vec<ImagePair>, replaced: Vec<Replaced>) -> String {
    let mut facts = vec![
        ("files".to_owned(), grouped(report.files)),
        ("bytes".to_owned(), grouped(report.bytes)),
        ("images".to_owned(), grouped(report.images)),
    ];
    if let Some(bytes) = report.dictionary_bytes {
        let what = format!(
            "{} bytes, counted once in its row; it was trained on these files and saves less on other files",
            grouped(bytes)
        );
        facts.push(("dictionary".to_owned(), what));
    }
    if let Some(inlined) = &report.inlined {
        facts.push(("inlining".to_owned(), inlined.to_string()));
    }
    let lossy = report.treatments.iter();
    let lossy = lossy.filter_map(|row| row.distortion.as_ref()).next();
    let definition = lossy.map_or(String::new(), |distortion| {
        format!(
            " SSIM is the {}; 1 means no difference.",
            distortion.definition
        )
    });
    content_page::render(&ContentReport {
        site: report.folder.clone(),
        answers: report.answers(),
        facts,
        treatments: report.treatments.iter().map(treatment).collect(),
        remark: format!(
            "Bytes are exact and include bodies only. If a treatment does not make a file smaller, its original size is \
             counted. CPU times are of all files: median [least, greatest] of {} repetitions.{definition}",
            report.repetitions()
        ),
        files: report
            .largest_savings
            .iter()
            .map(|file| FileSaving {
                path: file.path.clone(),
                bytes: file.bytes,
                treated_bytes: file.treated_bytes,
                treatment: file.treatment.clone(),
            })
            .collect(),
        images,
        replaced,
        notes: report.all_notes(),
        incomplete: report.incomplete(),
    })
}

fn treatment(row: &Row) -> Treatment {
    Treatment {
        name: row.treatment.clone(),
        bytes: row.sums.bytes,
        saved_share: row.saved_share,
        files_smaller: row.sums.files_smaller,
        encode: spread(&row.sums.encode_s),
        decode: spread(&row.sums.decode_s),
        distortion: remark(row),
    }
}

/// Describes the effects of the treatment other than the bytes saved.
fn remark(row: &Row) -> Option<String> {
    let requests = row.requests_saved;
    let requests = requests
        .map(|requests| format!("{requests} fewer requests in first visits of all documents"));
    requests.or_else(|| {
        let distortion = row.distortion.as_ref()?;
        let (mean, least) = (distortion.ssim_mean, distortion.ssim_least);
        Some(format!(
            "changes pixels: SSIM mean {mean:.4}, lowest {least:.4}"
        ))
    })
}
