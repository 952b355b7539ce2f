//! Joins the small images of a site into sprites, or inlines them into documents.

#[cfg(feature = "images")]
pub use self::with_images::SmallImages;
#[cfg(not(feature = "images"))]
pub use self::without_images::SmallImages;

#[cfg(feature = "images")]
mod with_images {
    use fathometer_content::{names_element, rewrite_css};

    use crate::inlining::Inlining;
    use crate::page_files::{
        Change, Held, JoinedDocument, Made, MakingCost, PageFileKind, PageFiles,
    };
    use crate::sprites::{SpriteFile, Sprites};
    use crate::table::Inlined;

    /// The small images of a site.
    #[derive(Debug, Default)]
    pub struct SmallImages {
        /// The images that can be part of sprites.
        pub sprites: Sprites,
        /// The images that can be inlined.
        pub inlining: Inlining,
        made: Vec<SpriteFile>,
    }

    impl SmallImages {
        /// Records the references to the images in documents and style sheets, and creates the sprites (`repetitions`
        /// times). Returns the reason if there are no sprites.
        pub fn make(&mut self, files: &PageFiles, repetitions: usize) -> Option<String> {
            let mut are_styled = false;
            for file in files.of(PageFileKind::Css) {
                are_styled |= names_element(&file.content, "img");
                rewrite_css(&file.content, |url| {
                    if let Some(place) = file.place_of(url) {
                        self.inlining.note_reference(place.clone());
                        self.sprites.note_reference(place);
                    }
                    None
                });
            }
            for file in files.of(PageFileKind::Html) {
                let place_of = |url: &str| file.place_of(url);
                // A document that cannot be scanned is left unchanged.
                let _ = self.inlining.note_document(&file.content, place_of);
                let _ = self
                    .sprites
                    .note_document(&file.content, are_styled, place_of);
            }
            match self.sprites.make(repetitions, |place| files.is_free(place)) {
                Ok(made) => {
                    self.made = made;
                    None
                }
                Err(error) => Some(format!("no sprites: {error}")),
            }
        }

        /// Returns the document with its images from sprites, and the number of requests saved.
        pub fn apply_sprites(&self, file: &Held) -> Option<JoinedDocument> {
            self.sprites.apply(&file.content, |url| file.place_of(url))
        }

        /// Adds the sprites, and removes the images that they contain.
        pub fn add_sprites<'a>(&'a self, change: &mut Change<'a>) {
            for sprite in &self.made {
                let images = || self.sprites.files(&sprite.images);
                change.gone.extend(images());
                change.made.push(Made {
                    place: sprite.place.clone(),
                    content: sprite.content.clone(),
                    others_bytes: images().map(|image| image.bytes).sum(),
                    cost: MakingCost::Image(sprite.applied.clone()),
                });
            }
        }

        /// Returns the document with inlined images, and the number of requests saved.
        pub fn inline(&self, file: &Held) -> Option<JoinedDocument> {
            self.inlining.apply(&file.content, |url| file.place_of(url))
        }

        /// Removes the images that are inlined into documents.
        pub fn remove_inlined<'a>(&'a self, change: &mut Change<'a>) {
            change.gone.extend(self.inlining.files());
        }

        /// Returns the images that can be inlined into documents.
        pub fn inlined(&self) -> Option<Inlined> {
            self.inlining.summary()
        }
    }
}

#[cfg(not(feature = "images"))]
mod without_images {
    use crate::page_files::{Change, Held, JoinedDocument, PageFiles};
    use crate::table::Inlined;

    /// An empty type: without the image libraries there are no small images.
    #[derive(Debug, Default)]
    pub struct SmallImages;

    impl SmallImages {
        pub fn make(&mut self, _: &PageFiles, _: usize) -> Option<String> {
            None
        }

        pub fn apply_sprites(&self, _: &Held) -> Option<JoinedDocument> {
            None
        }

        pub fn add_sprites(&self, _: &mut Change<'_>) {}

        pub fn inline(&self, _: &Held) -> Option<JoinedDocument> {
            None
        }

        pub fn remove_inlined(&self, _: &mut Change<'_>) {}

        pub fn inlined(&self) -> Option<Inlined> {
            None
        }
    }
}
