//! Calls a function for each chunk of a slice, in items of a scope.

use std::sync::Arc;

use crate::engine::item::scope::Scope;
use crate::engine::refusal::QueueError;

impl<'scope> Scope<'scope, '_> {
    /// Calls `function` for each chunk of a slice, and makes one item for each call. A chunk has `size` elements, and
    /// the last chunk may have fewer. The function gets the index of the chunk's first element, and the chunk. The call
    /// of `chunks` does not wait for the items. The scope waits for them at its end.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let queue = cmwq::WorkQueue::new("sums");
    /// let (numbers, sum) = ([1, 2, 3, 4, 5], AtomicU32::new(0));
    /// queue.scope(|s| {
    ///     s.chunks(&numbers, 2, |_, chunk| drop(sum.fetch_add(chunk.iter().sum(), Ordering::Relaxed)))
    /// })?;
    /// assert_eq!(sum.into_inner(), 15);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`QueueError::ZeroChunk`] if `size` is 0.
    /// * The error of [`spawn`](Self::spawn) if the queue refuses the item of a chunk. Then `function` is called for
    ///   the chunks before the refused one, but neither for the refused chunk nor for the chunks after it.
    #[doc(alias = "par_chunks")]
    pub fn chunks<T, F>(&'scope self, slice: &'scope [T], size: usize, function: F) -> Result<(), QueueError>
    where
        T: Sync,
        F: Fn(usize, &'scope [T]) + Send + Sync + 'scope,
    {
        self.for_chunks(slice.chunks(size.max(1)), size, function)
    }

    /// Calls `function` for each chunk of a slice, as [`chunks`](Self::chunks) does. The function may change the
    /// elements.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("squares");
    /// let numbers: Vec<u64> = (1..=1000).collect();
    /// let mut squares = vec![0; 1000];
    /// queue.scope(|s| {
    ///     s.chunks_mut(&mut squares, 300, |first, chunk| {
    ///         chunk.iter_mut().zip(&numbers[first..]).for_each(|(square, n)| *square = n * n);
    ///     })
    /// })?;
    /// assert_eq!(squares[999], 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`chunks`](Self::chunks).
    #[doc(alias = "par_chunks_mut")]
    pub fn chunks_mut<T, F>(
        &'scope self,
        slice: &'scope mut [T],
        size: usize,
        function: F,
    ) -> Result<(), QueueError>
    where
        T: Send,
        F: Fn(usize, &'scope mut [T]) + Send + Sync + 'scope,
    {
        self.for_chunks(slice.chunks_mut(size.max(1)), size, function)
    }

    fn for_chunks<C, F>(
        &'scope self,
        chunks: impl Iterator<Item = C>,
        size: usize,
        function: F,
    ) -> Result<(), QueueError>
    where
        C: Send + 'scope,
        F: Fn(usize, C) + Send + Sync + 'scope,
    {
        if size == 0 {
            return Err(QueueError::ZeroChunk);
        }
        let function = Arc::new(function);
        for (n, chunk) in chunks.enumerate() {
            let function = Arc::clone(&function);
            self.spawn(move || function(n * size, chunk))?;
        }
        Ok(())
    }
}
