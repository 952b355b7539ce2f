//! Still pictures as AVIF, with what decoders show of them.
//!
//! A crate of its own because of its library, the AV1 encoder rav1e: its code is generic, and is compiled with the
//! crate that uses it. Without the feature `encoder` this crate has no interface.
//!
//! AV1 is lossy here. Its specification defines the decoded samples exactly, so that the encoder has the same ones as
//! every decoder: later frames of a video refer to them. `Picture::encode` returns them as pixels. No decoder is needed to
//! state the distortion of a picture. Decoders differ by rounding when they turn samples into pixels.
//!
//! Memory grows in proportion to the pixels, and so does time. The encoder cannot be stopped: limits are the caller's.

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
