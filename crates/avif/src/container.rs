//! The AVIF container (AVIF 1.1): AV1 items for colour and alpha, an EXIF item, and their properties, in boxes
//! of ISO/IEC 14496-12 and 23008-12.
//!
//! The container is implemented here because the library avif-serialize does not support ICC profiles, which many
//! photographs have.

use crate::encoder::Coded;
use crate::error::Error;

/// The items, by their numbers.
const COLOUR: u16 = 1;
const ALPHA: u16 = 2;
const EXIF: u16 = 3;
/// The flag of a property that a decoder must support (ISO/IEC 23008-12, section 9.3.3).
const ESSENTIAL: u8 = 0x80;
/// The length of the header of a box in bytes.
const HEADER: usize = 8;
/// The type that marks the second item as alpha (ISO/IEC 23000-22, section 7.3.5.2).
const IS_ALPHA: &[u8] = b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0";

/// The contents of a file.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// The coded colour, with one or three planes.
    pub colour: &'a Coded,
    /// The coded alpha, with one plane.
    pub alpha: Option<&'a Coded>,
    /// The ICC profile.
    pub icc: Option<&'a [u8]>,
    /// The EXIF metadata.
    pub exif: Option<&'a [u8]>,
}

/// An item of the file.
struct Item {
    id: u16,
    kind: &'static [u8; 4],
    data: Vec<u8>,
    /// The numbers of the item's properties, from 1.
    properties: Vec<u8>,
    /// The type of the item's reference to the first item.
    reference: Option<&'static [u8; 4]>,
}

impl Contents<'_> {
    /// Returns the bytes of the file.
    ///
    /// # Errors
    ///
    /// If it would be longer than 4 GiB.
    pub fn file(&self) -> Result<Vec<u8>, Error> {
        let kinds = boxed(b"ftyp", &[b"avif", &[0; 4], b"avif", b"mif1", b"miaf"]);
        let (items, properties) = self.items();
        // The length of the metadata does not depend on the positions that it contains.
        let length = meta(&items, &properties, 0).len();
        let data = kinds.len() + length + HEADER;
        let mut file = [kinds, meta(&items, &properties, data as u32)].concat();
        let data: Vec<&[u8]> = items.iter().map(|item| item.data.as_slice()).collect();
        file.extend(boxed(b"mdat", &data));
        // All lengths and positions above have 32 bits.
        match u32::try_from(file.len()) {
            Ok(_) => Ok(file),
            Err(_) => Err(Error::TooLong),
        }
    }

    /// Creates the items, and the properties to which their numbers refer.
    fn items(&self) -> (Vec<Item>, Vec<Vec<u8>>) {
        let size = [self.width.to_be_bytes(), self.height.to_be_bytes()].concat();
        let mut properties = vec![full_box(b"ispe", 0, &[&size])];
        let mut add = |property: Vec<u8>| {
            properties.push(property);
            properties.len() as u8
        };
        let planes = self.colour.planes.len();
        let mut of_colour = vec![
            1,
            add(configuration(planes)) | ESSENTIAL,
            add(depths(planes)),
            add(boxed(b"colr", &[&meaning(self.icc.is_some())])),
        ];
        if let Some(icc) = self.icc {
            of_colour.push(add(boxed(b"colr", &[b"prof", icc])));
        }
        let item = |id, kind, data, properties, reference| Item {
            id,
            kind,
            data,
            properties,
            reference,
        };
        let mut items = vec![item(
            COLOUR,
            b"av01",
            self.colour.data.clone(),
            of_colour,
            None,
        )];
        if let Some(alpha) = self.alpha {
            let of_alpha = vec![
                1,
                add(configuration(1)) | ESSENTIAL,
                add(depths(1)),
                add(full_box(b"auxC", 0, &[IS_ALPHA])),
            ];
            let data = alpha.data.clone();
            items.push(item(ALPHA, b"av01", data, of_alpha, Some(b"auxl")));
        }
        if let Some(exif) = self.exif {
            // The TIFF data begin after this offset, which is 0 (ISO/IEC 23008-12, annex A.2.1).
            let data = [[0; 4].as_slice(), exif].concat();
            items.push(item(EXIF, b"Exif", data, Vec::new(), Some(b"cdsc")));
        }
        (items, properties)
    }
}

/// Creates the metadata box, for data that begin at position `data` of the file.
fn meta(items: &[Item], properties: &[Vec<u8>], data: u32) -> Vec<u8> {
    let handler = full_box(b"hdlr", 0, &[&[0; 4], b"pict", &[0; 13]]);
    let primary = full_box(b"pitm", 0, &[&COLOUR.to_be_bytes()]);
    let count = (items.len() as u16).to_be_bytes();
    let (mut places, mut kinds, mut references, mut associations) = (
        // Positions and lengths have four bytes each.
        [[0x44, 0], count].concat(),
        count.to_vec(),
        Vec::new(),
        Vec::new(),
    );
    let (mut at, mut associated) = (data, 0_u32);
    for item in items {
        let id = item.id.to_be_bytes();
        let length = item.data.len() as u32;
        // The data are in this file, in one piece.
        places.extend([id, [0, 0], [0, 1]].concat());
        places.extend([at.to_be_bytes(), length.to_be_bytes()].concat());
        at = at.wrapping_add(length);
        kinds.extend(full_box(b"infe", 2, &[&id, &[0; 2], item.kind, &[0]]));
        if let Some(kind) = item.reference {
            let to = COLOUR.to_be_bytes();
            references.extend(boxed(kind, &[&id, &1_u16.to_be_bytes(), &to]));
        }
        if !item.properties.is_empty() {
            associated += 1;
            associations.extend(id);
            associations.push(item.properties.len() as u8);
            associations.extend(&item.properties);
        }
    }
    let mut parts = vec![
        handler,
        primary,
        full_box(b"iloc", 0, &[&places]),
        full_box(b"iinf", 0, &[&kinds]),
    ];
    if !references.is_empty() {
        parts.push(full_box(b"iref", 0, &[&references]));
    }
    let properties = boxed(b"ipco", &[&properties.concat()]);
    let associations = full_box(b"ipma", 0, &[&associated.to_be_bytes(), &associations]);
    parts.push(boxed(b"iprp", &[&properties, &associations]));
    full_box(b"meta", 0, &[&parts.concat()])
}

/// Creates the decoder configuration (AV1 in ISOBMFF, section 2.3.3): the profile, no level, 8 bits, and the planes. A
/// single plane is marked as subsampled.
fn configuration(planes: usize) -> Vec<u8> {
    let (profile, format) = match planes {
        1 => (0, 0b0001_1100),
        _ => (1, 0),
    };
    boxed(b"av1C", &[&[0x81, (profile << 5) | 31, format, 0]])
}

/// Creates the property with the number of bits of each plane.
fn depths(planes: usize) -> Vec<u8> {
    full_box(b"pixi", 0, &[&[planes as u8], &vec![8; planes]])
}

/// Creates the colour information (ITU-T H.273): primaries and transfer of sRGB, or unspecified if there is a profile;
/// Cb and Cr by BT.601; the full range.
fn meaning(has_profile: bool) -> Vec<u8> {
    let (primaries, transfer) = if has_profile { (2, 2) } else { (1, 13) };
    let mut meaning = b"nclx".to_vec();
    meaning.extend([0, primaries, 0, transfer, 0, 6, 0x80]);
    meaning
}

/// Creates a box with these parts.
fn boxed(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = (HEADER + content.len()) as u32;
    [length.to_be_bytes().as_slice(), name, &content].concat()
}

/// Creates a box with a version, without flags.
fn full_box(name: &[u8; 4], version: u8, parts: &[&[u8]]) -> Vec<u8> {
    boxed(name, &[&[version, 0, 0, 0], &parts.concat()])
}
