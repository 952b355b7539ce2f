//! The result of a copy, as JSON and as text.

use std::fmt;

use serde::Serialize;

/// The counts of a copy.
#[derive(Debug, Default, Serialize)]
pub struct Written {
    /// The site.
    pub folder: String,
    /// The copy.
    pub out: String,
    /// The number of files of the site.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The bytes of the files in the copy, without the originals that remain in addition to renamed images.
    pub treated_bytes: u64,
    /// The number of images that became smaller.
    pub images_treated: u64,
    /// The number of these images that have a new name.
    pub images_renamed: u64,
    /// The number of images that could not be treated and were copied unchanged.
    pub images_failed: u64,
    /// The number of links and special files, which are not in the copy.
    pub entries_skipped: u64,
    /// The number of references in HTML and CSS to the new names.
    pub references: u64,
    /// The number of documents and style sheets that minification made shorter.
    pub files_minified: u64,
    /// The number of files that replace several joined style sheets or scripts.
    pub files_concatenated: u64,
    /// The number of sprites.
    pub sprites: u64,
    /// The number of images that documents show from sprites.
    pub images_in_sprites: u64,
    /// The number of images that are inlined into documents.
    pub images_inlined: u64,
    /// The number of requests saved in first visits of all documents together.
    pub requests_saved: u64,
    /// The number of style sheets with an error, which were copied unchanged.
    pub style_sheets_failed: u64,
    /// The number of documents that were copied unchanged, because their tags or references cannot be read with
    /// certainty.
    pub documents_left: u64,
    /// The number of other files that were copied unchanged, because documents state, or may state, their hashes
    /// (`integrity`).
    pub files_hashed: u64,
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
                "{files} files each replace several style sheets or scripts."
            )?;
        }
        if self.sprites > 0 {
            let (sprites, images) = (self.sprites, self.images_in_sprites);
            writeln!(out, "{sprites} sprites contain {images} small images.")?;
        }
        if self.images_inlined > 0 {
            let images = self.images_inlined;
            writeln!(out, "{images} small images are inlined in documents.")?;
        }
        if self.requests_saved > 0 {
            let requests = self.requests_saved;
            writeln!(
                out,
                "First visits of all documents together make {requests} fewer requests."
            )?;
        }
        if self.documents_left > 0 {
            let left = self.documents_left;
            writeln!(out, "note: {left} documents were copied unchanged")?;
        }
        if self.files_hashed > 0 {
            let files = self.files_hashed;
            writeln!(
                out,
                "note: {files} files were copied unchanged, because documents state, or may state, their hashes (integrity)"
            )?;
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
                "INCOMPLETE: {failed} images could not be treated and were copied unchanged"
            )?;
        }
        if self.style_sheets_failed > 0 {
            let failed = self.style_sheets_failed;
            writeln!(
                out,
                "INCOMPLETE: {failed} style sheets could not be minified and were copied unchanged"
            )?;
        }
        Ok(())
    }
}
