//! Encodes still pictures as AVIF, and returns the pixels that decoders show.
//!
//! This is a separate crate because the generic code of its library, the AV1 encoder rav1e, is compiled again with each
//! change of the crate that uses it. Without the feature `encoder` this crate has no interface.
//!
//! AV1 is lossy here. The specification of AV1 defines the decoded samples exactly, because later frames of a video
//! refer to them. Therefore the encoder has the same samples as every decoder. `Picture::encode` returns these samples
//! as pixels, so the distortion of a picture is known without a decoder. The only differences are rounding differences
//! when decoders convert samples to pixels.
//!
//! Memory and time are proportional to the pixels. The encoder cannot be stopped; the caller must limit the
//! size.

#[cfg(feature = "encoder")]
mod container;
#[cfg(feature = "encoder")]
mod encoder;
#[cfg(feature = "encoder")]
mod error;
#[cfg(feature = "encoder")]
mod picture;
#[cfg(any(feature = "encoder", test))]
mod planes;

#[cfg(feature = "encoder")]
pub use error::Error;
#[cfg(feature = "encoder")]
pub use picture::{Encoded, Picture};
