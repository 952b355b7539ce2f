//! The distortion by lossy treatments, measured as structural similarity.

use super::Picture;

/// The definition of [`ssim`], for reports.
pub const SSIM_DEFINITION: &str = "mean SSIM (Wang et al. 2004) of luma (BT.601), Gaussian window of 11 x 11 pixels, sigma 1.5; \
     for a transparent image, the lower value over black and over white";

/// The width of the window in pixels.
const WINDOW: usize = 11;
/// The standard deviation of the window in pixels.
const SIGMA: f64 = 1.5;
/// (K1 L)² and (K2 L)² with K1 = 0.01, K2 = 0.03 and L = 255 (equations 8 and 12 of the paper).
const C1: f64 = 0.01 * 255.0 * 0.01 * 255.0;
const C2: f64 = 0.03 * 255.0 * 0.03 * 255.0;

/// Computes the mean structural similarity of the first frames, according to [`SSIM_DEFINITION`]. It is 1 for equal
/// images. All windows are inside the image. `None` if the sizes differ, or the image is smaller than one window.
///
/// The computation needs memory for eleven rows, in addition to the images.
pub fn ssim(a: &Picture, b: &Picture) -> Option<f64> {
    let is_opaque = |picture: &Picture| picture.pixels().iter().all(|pixel| pixel[3] == 255);
    let over_black = ssim_over(0.0, a, b)?;
    match is_opaque(a) && is_opaque(b) {
        true => Some(over_black),
        false => Some(over_black.min(ssim_over(255.0, a, b)?)),
    }
}

/// Computes the mean structural similarity over a background of this luma.
fn ssim_over(background: f64, a: &Picture, b: &Picture) -> Option<f64> {
    let (width, height) = (a.width as usize, a.height as usize);
    if (a.width, a.height) != (b.width, b.height) || width < WINDOW || height < WINDOW {
        return None;
    }
    let weights = weights();
    // The rows after horizontal weighting: of a, b, a², b² and ab.
    let mut rows = vec![vec![[0.0; 5]; width + 1 - WINDOW]; WINDOW];
    let mut sum = 0.0;
    for row in 0..height {
        let lumas = |picture: &Picture| -> Vec<f64> {
            let row = &picture.pixels()[row * width..(row + 1) * width];
            row.iter().map(|pixel| luma(pixel, background)).collect()
        };
        let (x, y) = (lumas(a), lumas(b));
        let moments: Vec<[f64; 5]> = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| [x, y, x * x, y * y, x * y])
            .collect();
        for (out, window) in rows[row % WINDOW].iter_mut().zip(moments.windows(WINDOW)) {
            *out = weighted(window.iter(), &weights);
        }
        if row + 1 < WINDOW {
            continue;
        }
        // In the ring buffer, the oldest row follows the newest row.
        let by_age: [_; WINDOW] = std::array::from_fn(|age| &rows[(row + 1 + age) % WINDOW]);
        for column in 0..=width - WINDOW {
            let window = by_age.iter().map(|row| &row[column]);
            sum += similarity(weighted(window, &weights));
        }
    }
    Some(sum / ((width + 1 - WINDOW) * (height + 1 - WINDOW)) as f64)
}

/// Computes equation 13 of the paper.
fn similarity([x, y, xx, yy, xy]: [f64; 5]) -> f64 {
    let (variance_x, variance_y, covariance) = (xx - x * x, yy - y * y, xy - x * y);
    (2.0 * x * y + C1) * (2.0 * covariance + C2)
        / ((x * x + y * y + C1) * (variance_x + variance_y + C2))
}

fn weighted<'a>(values: impl Iterator<Item = &'a [f64; 5]>, weights: &[f64; WINDOW]) -> [f64; 5] {
    let mut sums = [0.0; 5];
    for (value, weight) in values.zip(weights) {
        for (sum, value) in sums.iter_mut().zip(value) {
            *sum += value * weight;
        }
    }
    sums
}

fn weights() -> [f64; WINDOW] {
    let centre = (WINDOW / 2) as f64;
    let gauss = |at: usize| (-(at as f64 - centre).powi(2) / (2.0 * SIGMA * SIGMA)).exp();
    let sum: f64 = (0..WINDOW).map(gauss).sum();
    std::array::from_fn(|at| gauss(at) / sum)
}

fn luma(&[r, g, b, alpha]: &[u8; 4], background: f64) -> f64 {
    let luma = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    let cover = f64::from(alpha) / 255.0;
    luma * cover + background * (1.0 - cover)
}
