//! Treats the documents of a copy, and the files that they load.

use std::io;
use std::path::Path;

use fathometer_content::{names_element, rewrite_css, rewrite_html};

use super::names::place_of;
use super::{SiteCopy, not_read, write};
use crate::minified::{Minifiable, minify};
use crate::{Failure, walk};

impl SiteCopy<'_> {
    /// Reads the data of a document that the copy of style sheets needs.
    pub(super) fn read_document(&mut self, path: &Path) -> Result<(), Failure> {
        let content = match walk::read(path, self.options.max_file) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                // The document may state a hash.
                self.hashes.are_unknown = true;
                return Ok(());
            }
            Err(error) => return Err(not_read(path, &error)),
        };
        // A document that cannot be read is reported when it is written.
        let read = rewrite_html(&content, |_| None);
        let place = path.strip_prefix(self.root)?;
        self.hashes.note(place, &content, read.as_ref().ok());
        if read.is_ok() {
            let place_of = |url: &str| place_of(place, url);
            // This cannot fail: documents that cannot be scanned were rejected above.
            if let Some(concatenations) = &mut self.concatenations {
                let _ = concatenations.note(&content, place_of);
            }
            if let Some(sprites) = &mut self.sprites {
                let _ = sprites.note_document(&content, self.are_images_styled, place_of);
            }
            if let Some(inlining) = &mut self.inlining {
                let _ = inlining.note_document(&content, place_of);
            }
        }
        Ok(())
    }

    /// Reads the data of a style sheet that the reading of documents needs.
    pub(super) fn read_style_sheet(&mut self, path: &Path) -> Result<(), Failure> {
        if self.sprites.is_none() && self.inlining.is_none() {
            return Ok(());
        }
        let place = path.strip_prefix(self.root)?;
        match walk::read(path, self.options.max_file) {
            Ok(css) => {
                self.are_images_styled |= names_element(&css, "img");
                rewrite_css(&css, |url| {
                    let place = place_of(place, url)?;
                    if let Some(sprites) = &mut self.sprites {
                        sprites.note_reference(place.clone());
                    }
                    if let Some(inlining) = &mut self.inlining {
                        inlining.note_reference(place);
                    }
                    None
                });
            }
            Err(_) => self.are_images_styled = true,
        }
        Ok(())
    }

    /// Creates the sprites from the original images of the site, and writes them.
    pub(super) fn make_sprites(&mut self) -> Result<(), Failure> {
        let Some(sprites) = &mut self.sprites else {
            return Ok(());
        };
        let (out, root) = (self.out, self.root);
        let made = sprites.make(1, |place| {
            !(out.join(place).exists() || root.join(place).exists())
        })?;
        self.written.sprites = made.len() as u64;
        for sprite in made {
            self.written.images_in_sprites += sprite.images.len() as u64;
            write(&out.join(&sprite.place), &sprite.content)?;
        }
        Ok(())
    }

    /// Joins the written style sheets and scripts, and writes the joined files.
    pub(super) fn concatenate(&mut self) -> Result<(), Failure> {
        let Some(concatenations) = &mut self.concatenations else {
            return Ok(());
        };
        let (out, root, max_file) = (self.out, self.root, self.options.max_file);
        let content_of = |place: &str| walk::read(&out.join(place), max_file).ok();
        let is_free = |place: &str| !(out.join(place).exists() || root.join(place).exists());
        let (made, left) = concatenations.make(content_of, is_free);
        left.iter()
            .for_each(|why| (self.options.say)(format_args!("{why}")));
        self.written.files_concatenated = made.len() as u64;
        for file in made {
            write(&out.join(&file.place), &file.content)?;
        }
        Ok(())
    }

    /// Returns the treated document.
    pub(super) fn html(&mut self, path: &Path, place: &Path, content: &[u8]) -> Vec<u8> {
        let place_of = |url: &str| place_of(place, url);
        let with_sprites = self
            .sprites
            .as_ref()
            .and_then(|all| all.apply(content, place_of));
        let (content, saved) = with_sprites.unwrap_or_else(|| (content.to_vec(), 0));
        self.written.requests_saved += saved;
        let inlining = self.inlining.as_ref();
        let inlined = inlining.and_then(|all| all.apply(&content, place_of));
        let (content, saved) = inlined.unwrap_or((content, 0));
        self.written.images_inlined += saved;
        self.written.requests_saved += saved;
        let concatenations = self.concatenations.as_ref();
        let joined = concatenations.and_then(|all| all.apply(&content, place_of));
        let (content, saved) = joined.unwrap_or((content, 0));
        self.written.requests_saved += saved;
        let rewritten = match rewrite_html(&content, |url| self.names.renamed(place, url)) {
            Ok(rewritten) => rewritten,
            Err(why) => {
                self.written.documents_left += 1;
                let path = path.display();
                (self.options.say)(format_args!("{path}: copied unchanged: {why}"));
                return content;
            }
        };
        self.written.references += rewritten.references;
        // XHTML has other rules for white space.
        let is_html = path
            .extension()
            .is_some_and(|end| !end.eq_ignore_ascii_case("xhtml"));
        match is_html {
            true => self.minified(path, Minifiable::Html, rewritten.content),
            false => rewritten.content,
        }
    }

    /// Returns the treated style sheet.
    pub(super) fn css(&mut self, path: &Path, place: &Path, content: &[u8]) -> Vec<u8> {
        let rewritten = rewrite_css(content, |url| self.names.renamed(place, url));
        self.written.references += rewritten.references;
        self.minified(path, Minifiable::Css, rewritten.content)
    }

    /// Returns the minified file, if minification is selected and possible.
    fn minified(&mut self, path: &Path, kind: Minifiable, content: Vec<u8>) -> Vec<u8> {
        let Some(kept) = &self.kept_white_space else {
            return content;
        };
        match minify(kind, &content, kept) {
            Ok(minified) => {
                self.written.files_minified += u64::from(minified.len() < content.len());
                minified
            }
            Err(error) => {
                self.written.style_sheets_failed += u64::from(kind == Minifiable::Css);
                let path = path.display();
                (self.options.say)(format_args!("cannot minify {path}: {error}"));
                content
            }
        }
    }
}
