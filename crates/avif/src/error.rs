//! The reasons why a picture is not encoded.

use rav1e::data::EncoderStatus;
use rav1e::prelude::InvalidConfig;

/// The reason why a picture is not encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The number of pixels does not match the width and height.
    #[error("the number of pixels is {pixels}, but the size is {width} x {height}")]
    Pixels {
        /// The number of pixels.
        pixels: usize,
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// The ICC profile is not for RGB (or, for a grey picture, not for grey).
    #[error("its ICC profile is not for RGB (or, for a grey picture, not for grey)")]
    Profile,
    /// The encoder refused the size: an AV1 frame has 1 to 65535 pixels in a row and in a column.
    #[error(transparent)]
    Size(#[from] InvalidConfig),
    /// The encoder failed.
    #[error("the AV1 encoder failed: {0}")]
    Encoder(#[from] EncoderStatus),
    /// The encoder returned no frame.
    #[error("the AV1 encoder returned no frame")]
    NoFrame,
    /// The file would be longer than 4 GiB.
    #[error("the file would be longer than 4 GiB")]
    TooLong,
}
