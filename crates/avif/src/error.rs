//! Why a picture is not encoded.

use rav1e::data::EncoderStatus;
use rav1e::prelude::InvalidConfig;

/// Why a picture is not encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pixels are not those of a picture of this width and height.
    #[error("{pixels} pixels are no picture of {width} x {height}")]
    Pixels {
        /// The number of pixels.
        pixels: usize,
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The profile has other colours than red, green and blue, or is one of grey and the picture is not.
    #[error(
        "its ICC profile is neither one of red, green and blue nor one of grey for a grey picture"
    )]
    Profile,
    /// The encoder refused the size: AV1 has 1 to 65535 pixels in a row and in a column.
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
