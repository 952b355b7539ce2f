//! Encodes planes as AV1, and returns the samples that decoders produce.

use rav1e::prelude::{
    ChromaSampling, ColorDescription, ColorPrimaries, Config, Context, EncoderConfig,
    EncoderStatus, MatrixCoefficients, PixelRange, Rational, SceneDetectionSpeed, SpeedSettings,
    TransferCharacteristics,
};

use crate::error::Error;

/// The quantizer of colours, 1 to 255: higher values lose more. With this value, the SSIM of photographs is equal to or
/// slightly above JPEG with quality 75 (docs/content.md).
pub const QUANTIZER: usize = 120;
/// The quantizer of alpha. It is lower because errors in alpha are visible at every edge.
pub const ALPHA_QUANTIZER: usize = 40;
/// The speed preset of rav1e, 0 to 10: higher values are faster. From 9 on, blocks have at least 16 x 16
/// pixels, which is too large for drawings.
const SPEED: u8 = 8;
/// A temporal delimiter (AV1, section 5.6). Samples in files should not contain a temporal delimiter (AV1 in ISOBMFF,
/// section 2.4).
const TEMPORAL_DELIMITER: &[u8] = &[0x12, 0];

/// One coded frame.
#[derive(Debug)]
pub struct Coded {
    /// The sequence header and the frame.
    pub data: Vec<u8>,
    /// The samples that a decoder produces, in the same planes as the input.
    pub planes: Vec<Vec<u8>>,
}

/// Encodes one plane, or luma, Cb and Cr; samples are row by row.
pub fn encode(
    planes: &[Vec<u8>],
    (width, height): (usize, usize),
    quantizer: usize,
    meaning: Option<ColorDescription>,
) -> Result<Coded, Error> {
    let config = EncoderConfig {
        width,
        height,
        chroma_sampling: match planes.len() {
            1 => ChromaSampling::Cs400,
            _ => ChromaSampling::Cs444,
        },
        color_description: meaning,
        quantizer,
        min_quantizer: u8::try_from(quantizer).unwrap_or(u8::MAX),
        ..configuration()
    };
    let mut context: Context<u8> = Config::new().with_encoder_config(config).new_context()?;
    let mut frame = context.new_frame();
    for (plane, samples) in frame.planes.iter_mut().zip(planes) {
        let stride = plane.cfg.stride;
        let rows = plane.data_origin_mut().chunks_mut(stride);
        for (row, samples) in rows.zip(samples.chunks_exact(width)) {
            row[..width].copy_from_slice(samples);
        }
    }
    context.send_frame(frame)?;
    context.flush();
    let packet = loop {
        match context.receive_packet() {
            Ok(packet) => break packet,
            // The encoder has processed a frame that is not displayed.
            Err(EncoderStatus::Encoded) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let shown = packet.rec.ok_or(Error::NoFrame)?;
    let shown = shown.planes.iter().take(planes.len()).map(|plane| {
        let rows = plane.data_origin().chunks(plane.cfg.stride).take(height);
        rows.flat_map(|row| &row[..width])
            .copied()
            .collect::<Vec<u8>>()
    });
    let data = packet.data.strip_prefix(TEMPORAL_DELIMITER);
    Ok(Coded {
        planes: shown.collect(),
        data: data.unwrap_or(&packet.data).to_vec(),
    })
}

/// Returns the configuration that all pictures share.
fn configuration() -> EncoderConfig {
    EncoderConfig {
        pixel_range: PixelRange::Full,
        still_picture: true,
        // At one frame per second, AV1 requires several tiles only for large pictures.
        time_base: Rational::new(1, 1),
        min_key_frame_interval: 0,
        max_key_frame_interval: 0,
        speed_settings: speed_settings(),
        ..EncoderConfig::default()
    }
}

/// Returns the colour description: sRGB, or unspecified for the colour space of a profile; Cb and Cr by BT.601.
pub fn meaning(is_srgb: bool) -> ColorDescription {
    let (color_primaries, transfer_characteristics) = match is_srgb {
        true => (ColorPrimaries::BT709, TransferCharacteristics::SRGB),
        false => (
            ColorPrimaries::Unspecified,
            TransferCharacteristics::Unspecified,
        ),
    };
    ColorDescription {
        color_primaries,
        transfer_characteristics,
        matrix_coefficients: MatrixCoefficients::BT601,
    }
}

/// Returns the preset without the tools for several frames.
fn speed_settings() -> SpeedSettings {
    let mut settings = SpeedSettings::from_preset(SPEED);
    settings.multiref = false;
    settings.rdo_lookahead_frames = 1;
    settings.scene_detection_mode = SceneDetectionSpeed::None;
    settings.motion.include_near_mvs = false;
    settings
}
