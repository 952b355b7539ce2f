//! The result of a copy, as JSON and as text.

use std::fmt;

use serde::Serialize;

/// What was written.
#[derive(Debug, Default, Serialize)]
pub struct Written {
    /// The site.
    pub folder: String,
    /// The copy.
    pub out: String,
    /// Files of the site.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the files that replace them.
    pub treated_bytes: u64,
    /// Images that are smaller.
    pub images_treated: u64,
    /// Those of them with a new name.
    pub images_renamed: u64,
    /// Images that could not be treated, and were copied.
    pub images_failed: u64,
    /// Links and special files, which are not in the copy.
    pub entries_skipped: u64,
    /// References in HTML and CSS to the new names.
    pub references: u64,
    /// Documents and style sheets that are shorter without what browsers do not need.
    pub files_minified: u64,
    /// Files that several style sheets or scripts were joined to.
    pub files_concatenated: u64,
    /// Files with several small images in them.
    pub sprites: u64,
    /// Images that documents show from these files.
    pub images_in_sprites: u64,
    /// Images that documents have in them.
    pub images_inlined: u64,
    /// Requests fewer of first visits, of all documents together.
    pub requests_saved: u64,
    /// Style sheets that have a fault, and were copied.
    pub style_sheets_failed: u64,
    /// Documents that were copied as they are, because their tags or references cannot be read with certainty.
    pub documents_left: u64,
}

impl fmt::Display for Written {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let saved = match self.bytes {
            0 => 0.0,
            bytes => 100.0 - 100.0 * self.treated_bytes as f64 / bytes as f64,
        };
        writeln!(
            out,
            "{} is a copy of {} that saves {saved:.1} % of its bytes: {} -> {} in {} files.",
            self.out, self.folder, self.bytes, self.treated_bytes, self.files
        )?;
        writeln!(
            out,
            "{} images are smaller; {} of them have a new name, which {} references use.",
            self.images_treated, self.images_renamed, self.references
        )?;
        if self.files_minified > 0 {
            let minified = self.files_minified;
            writeln!(out, "{minified} documents and style sheets are minified.")?;
        }
        if self.files_concatenated > 0 {
            let files = self.files_concatenated;
            writeln!(
                out,
                "{files} files replace several style sheets or scripts each."
            )?;
        }
        if self.sprites > 0 {
            let (sprites, images) = (self.sprites, self.images_in_sprites);
            writeln!(out, "{sprites} sprites have {images} small images in them.")?;
        }
        if self.images_inlined > 0 {
            let images = self.images_inlined;
            writeln!(out, "{images} small images are parts of their documents.")?;
        }
        if self.requests_saved > 0 {
            let requests = self.requests_saved;
            writeln!(
                out,
                "First visits of all documents together make {requests} requests fewer."
            )?;
        }
        if self.documents_left > 0 {
            let left = self.documents_left;
            writeln!(out, "note: {left} documents were copied as they are")?;
        }
        if self.entries_skipped > 0 {
            let skipped = self.entries_skipped;
            writeln!(
                out,
                "note: {skipped} links and special files are not in the copy"
            )?;
        }
        if self.images_failed > 0 {
            let failed = self.images_failed;
            writeln!(
                out,
                "INCOMPLETE: {failed} images could not be treated, and were copied"
            )?;
        }
        if self.style_sheets_failed > 0 {
            let failed = self.style_sheets_failed;
            writeln!(
                out,
                "INCOMPLETE: {failed} style sheets could not be minified, and were copied"
            )?;
        }
        Ok(())
    }
}
