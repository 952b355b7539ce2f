//! The bytes of a file: one block of memory, or a sequence of slices of shared memory.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::Bytes;

/// The bytes of a file.
///
/// A site of a million files would not fit into memory if each file stored its own bytes. A *composed* body is a list
/// of slices of shared memory: the file's own beginning, then slices of a common pool. The list has tens of bytes for
/// any length, and its slices are written to a socket without being copied into one block.
#[derive(Clone)]
pub struct Body(Inner);

#[derive(Clone)]
enum Inner {
    Whole(Arc<[u8]>),
    Composed(Arc<Composed>),
}

struct Composed {
    length: u64,
    slices: Box<[SharedSlice]>,
}

/// A slice of shared memory.
#[derive(Clone)]
pub struct SharedSlice {
    bytes: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl SharedSlice {
    /// Creates a slice: the bytes `range` of `bytes`.
    ///
    /// # Panics
    /// When the range is not within `bytes`, or ends beyond 4 GiB.
    pub fn new(bytes: Arc<[u8]>, range: Range<usize>) -> SharedSlice {
        assert!(
            range.start <= range.end && range.end <= bytes.len(),
            "the range is outside the memory"
        );
        SharedSlice {
            start: u32::try_from(range.start).expect("shared memory is below 4 GiB"),
            end: u32::try_from(range.end).expect("shared memory is below 4 GiB"),
            bytes,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }
}

impl Body {
    /// Creates a body from the slices, in their order.
    pub fn composed(slices: Vec<SharedSlice>) -> Body {
        let length = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
        Body(Inner::Composed(Arc::new(Composed {
            length,
            slices: slices.into(),
        })))
    }

    /// The length of the body.
    pub fn len(&self) -> Bytes {
        match &self.0 {
            Inner::Whole(bytes) => Bytes(bytes.len() as u64),
            Inner::Composed(composed) => Bytes(composed.length),
        }
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == Bytes(0)
    }

    /// The non-empty slices of the body, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces_of(0..self.len().0)
    }

    /// Returns the non-empty slices of a part of the body, in order. A range beyond the end of the body is truncated.
    pub fn pieces_of(&self, range: Range<u64>) -> impl Iterator<Item = &[u8]> {
        let (whole, composed) = match &self.0 {
            Inner::Whole(bytes) => (Some(&bytes[..]), &[][..]),
            Inner::Composed(composed) => (None, &composed.slices[..]),
        };
        let mut passed = 0;
        whole
            .into_iter()
            .chain(composed.iter().map(SharedSlice::bytes))
            .filter_map(move |piece| {
                let start = passed;
                passed += piece.len() as u64;
                let first = range.start.clamp(start, passed) - start;
                let last = range.end.clamp(start, passed) - start;
                (first < last).then(|| &piece[first as usize..last as usize])
            })
    }

    /// The bytes of the body, if they are one block of memory.
    pub fn as_slice(&self) -> Option<&[u8]> {
        match &self.0 {
            Inner::Whole(bytes) => Some(bytes),
            Inner::Composed(_) => None,
        }
    }

    /// The bytes of the body as one slice: borrowed if they are one block of memory, otherwise copied into one block.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Inner::Whole(bytes) => Cow::Borrowed(bytes),
            Inner::Composed(composed) => Cow::Owned(
                composed
                    .slices
                    .iter()
                    .flat_map(|slice| slice.bytes())
                    .copied()
                    .collect(),
            ),
        }
    }
}

impl From<Arc<[u8]>> for Body {
    fn from(bytes: Arc<[u8]>) -> Body {
        Body(Inner::Whole(bytes))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body(Inner::Whole(bytes.into()))
    }
}

impl From<&[u8]> for Body {
    fn from(bytes: &[u8]) -> Body {
        Body(Inner::Whole(bytes.into()))
    }
}

/// Prints only the length, because the body may be large.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_woven_body_is_its_stretches_end_to_end() {
        let pool: Arc<[u8]> = (0..=9).collect();
        let head: Arc<[u8]> = b"head"[..].into();
        let slices = vec![
            SharedSlice::new(head, 0..4),
            SharedSlice::new(pool.clone(), 8..10),
            SharedSlice::new(pool.clone(), 3..3),
            SharedSlice::new(pool, 0..3),
        ];
        let body = Body::composed(slices);
        assert_eq!(body.len(), Bytes(9));
        assert_eq!(&*body.bytes(), b"head\x08\x09\x00\x01\x02");
        assert_eq!(body.pieces().count(), 3);
        for start in 0..10 {
            for end in start..11 {
                let part: Vec<u8> = body.pieces_of(start..end).flatten().copied().collect();
                let wanted = &body.bytes()[start.min(9) as usize..end.min(9) as usize];
                assert_eq!(part, wanted, "bytes {start}..{end}");
            }
        }
        assert!(Body::composed(Vec::new()).is_empty());
    }

    #[test]
    fn a_whole_body_has_one_piece_or_none() {
        let body = Body::from(b"0123456789".to_vec());
        assert_eq!(body.pieces().collect::<Vec<_>>(), [b"0123456789"]);
        assert_eq!(body.pieces_of(2..5).collect::<Vec<_>>(), [b"234"]);
        assert_eq!(body.pieces_of(5..5).count(), 0);
        assert!(matches!(body.bytes(), Cow::Borrowed(_)));
        assert_eq!(Body::from(Vec::new()).pieces().count(), 0);
    }
}
