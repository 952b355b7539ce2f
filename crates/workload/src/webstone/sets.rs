//! Known file lists: WebStone's own list, and the two lists of Almeida et al. (1996).

use crate::builder::Builder;
use crate::plan::{Choice, Weights};
use crate::workload::Workload;

/// The standard set of WebStone 2.x, which its run rules require.
const STANDARD: &str = "\
/file500.html 350 #500
/file5k.html 500 #5125
/file50k.html 140 #51250
/file500k.html 9 #512500
/file5m.html 1 #5248000
";

/// The sizes in KiB of the files of Almeida et al., the number of files of each size, and the weight of each file.
const ALMEIDA: &str = include_str!("../../../../workloads/almeida96_sizes.csv");

/// WebStone's standard set: one file per page.
pub fn standard() -> Workload {
    super::parse("webstone", STANDARD).expect("the standard set is a file list")
}

/// Creates workload A of Almeida et al.: 18 files of 298 KB in total; 94 % of accesses are to files below 50 KB.
///
/// The paper states these figures but not the files, so the sizes here are chosen to match them. They cannot match the
/// stated mean of 15 KB, because 298 / 18 is 16.6. The paper does not say which files form a page, so each file is a
/// separate page.
pub fn almeida_a() -> Workload {
    almeida("a", "almeida-a", 1.0)
}

/// Creates workload B of Almeida et al.: 180 files of 1 to 200 KB, 5 MB in total, all equally probable.
///
/// As with [`almeida_a`], the sizes are chosen to match the stated figures, except for the stated mean of 27 KB: 5 MB /
/// 180 is 28.4.
pub fn almeida_b() -> Workload {
    almeida("b", "almeida-b", 1.0)
}

/// Creates workload B with a mean file size of 300 KB, which section 5.5 of the paper uses to load a disk: 180 files,
/// 54 000 KB in total. The paper states only the mean; the ratios between the sizes are the same as in B.
pub fn almeida_300k() -> Workload {
    let mean = almeida_b().statistics().mean;
    almeida("b", "almeida-300k", 300.0 * 1024.0 / mean)
}

fn almeida(letter: &str, name: &str, scale: f64) -> Workload {
    let mut builder = Builder::default();
    let mut weights = Vec::new();
    for row in ALMEIDA.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        if fields[0] != letter {
            continue;
        }
        let number = |field: usize| -> u64 {
            fields[field]
                .parse()
                .expect("the table has numbers in this column")
        };
        for _ in 0..number(2) {
            let path = format!("/{letter}/file{:03}-{}k.html", weights.len(), number(1));
            let size = (number(1) as f64 * 1024.0 * scale).round() as u64;
            let target = builder.file(&path, "text/html", size);
            builder.pages.push(&[target]);
            weights.push(number(3));
        }
    }
    builder.notes.push(
        "file sizes are not in the paper; they were chosen to match its figures; every file is a page"
            .to_owned(),
    );
    let weights = Weights::new(weights).expect("the table has rows of each workload");
    builder.finish(name, Choice::Weighted(weights), None)
}
