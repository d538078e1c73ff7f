//! Blocks, which have generated content and its digest, and the check of both.

use sha2::{Digest, Sha512};

pub(crate) const BYTES: usize = 32 * 1024;

/// The number of different contents. Their digests are computed before the measurement.
const CONTENTS: usize = 64;

/// A block that is repeatedly filled, hashed and compared.
pub(crate) struct Block {
    bytes: Box<[u8]>,
    content: usize,
    digest: [u8; 64],
}

/// The digest of each content.
pub(crate) struct Digests(Vec<[u8; 64]>);

impl Digests {
    pub(crate) fn new() -> Self {
        let mut block = Block::new();
        let digest_of = |content| {
            block.fill(content);
            block.hash();
            block.digest
        };
        Self((0..CONTENTS).map(digest_of).collect())
    }
}

impl Block {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; BYTES].into(), content: 0, digest: [0; 64] }
    }

    /// Fills the block with the content of this number.
    pub(crate) fn fill(&mut self, number: usize) {
        self.content = number % CONTENTS;
        self.digest = [0; 64];
        for (place, word) in self.bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&word_at(self.content, place));
        }
    }

    pub(crate) fn hash(&mut self) {
        self.digest = Sha512::digest(&self.bytes).into();
    }

    /// Checks that the block's content was hashed correctly and has not changed.
    pub(crate) fn compare(&self, digests: &Digests) {
        assert!(self.digest == digests.0[self.content], "a digest is wrong");
        let mut words = self.bytes.chunks_exact(8).enumerate();
        assert!(words.all(|(place, word)| *word == word_at(self.content, place)), "a block was changed");
    }
}

/// Returns a word of a content. A word is cheap to make, and no two words of a block are equal.
#[inline]
fn word_at(content: usize, place: usize) -> [u8; 8] {
    let mixed = ((content << 32 | place) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).to_le_bytes()
}
