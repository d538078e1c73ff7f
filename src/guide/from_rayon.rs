//! Coming from rayon.
//!
//! Port the jobs that block, that wait for each other, that need an order or a limit, or that should not delay other
//! parts of the program. Stay with rayon where one computation is split into very many small parts: rayon's deques are
//! faster for items that queue other items. A program can use both crates.
//!
//! In this program, six lines change:
//!
//! ```diff
//! -use rayon::prelude::*;
//! +use cmwq::WorkQueue;
//!  use std::sync::mpsc::channel;
//!
//! -fn main() {
//! +fn main() -> Result<(), Box<dyn std::error::Error>> {
//! +    let queue = WorkQueue::new("words");
//!      let (send, lengths) = channel();
//!      for word in ["a", "bb", "ccc"] {
//!          let send = send.clone();
//! -        rayon::spawn(move || send.send(word.len()).expect("main receives it"));
//! +        queue.spawn_detached(move || send.send(word.len()).expect("main receives it"))?;
//!      }
//!      drop(send);
//!      assert_eq!(lengths.iter().sum::<usize>(), 6);
//!
//!      let mut squares: Vec<u64> = (0..1000).collect();
//! -    squares.par_chunks_mut(100).for_each(|chunk| chunk.iter_mut().for_each(|n| *n = n.pow(2)));
//! +    queue.scope(|s| s.chunks_mut(&mut squares, 100, |_, chunk| chunk.iter_mut().for_each(|n| *n = n.pow(2))))?;
//!      assert_eq!(squares[999], 998_001);
//! +    Ok(())
//!  }
//! ```
//!
//! Afterwards:
//!
//! ```
//! use cmwq::WorkQueue;
//! use std::sync::mpsc::channel;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let queue = WorkQueue::new("words");
//!     let (send, lengths) = channel();
//!     for word in ["a", "bb", "ccc"] {
//!         let send = send.clone();
//!         queue.spawn_detached(move || send.send(word.len()).expect("main receives it"))?;
//!     }
//!     drop(send);
//!     assert_eq!(lengths.iter().sum::<usize>(), 6);
//!
//!     let mut squares: Vec<u64> = (0..1000).collect();
//!     queue.scope(|s| s.chunks_mut(&mut squares, 100, |_, chunk| chunk.iter_mut().for_each(|n| *n = n.pow(2))))?;
//!     assert_eq!(squares[999], 998_001);
//!     Ok(())
//! }
//! ```
//!
//! # Names
//!
//! | rayon | cmwq |
//! |---|---|
//! | `rayon::spawn`, `spawn_fifo` | [`spawn_detached`](crate::WorkQueue::spawn_detached) |
//! | `ThreadPoolBuilder::new().num_threads(n)` | `WorkQueue::builder(name)` with [`max_active_total(n)`](crate::WorkQueueBuilder::max_active_total) |
//! | `pool.install(f)` | [`s.spawn(f)`](crate::Scope::spawn) in a [`scope`](crate::WorkQueue::scope), and `join`; if `f` borrows nothing, [`spawn(f)`](crate::WorkQueue::spawn) and `join` |
//! | `scope`, `in_place_scope` | [`scope`](crate::WorkQueue::scope), whose body runs on the caller's thread |
//! | `s.spawn(\|s\| …)` in an item | [`s.spawn`](crate::Scope::spawn) in an item that has captured `s` |
//! | `par_iter().map(f).collect()` | [`map(inputs, f)`](crate::WorkQueue::map)`.collect::<Result<Vec<_>, RunError>>()?`: an iterator, in the order of the inputs |
//! | `par_iter().for_each(f)` | [`for_each(inputs, f)`](crate::WorkQueue::for_each) |
//! | `par_chunks`, `par_chunks_mut` | [`Scope::chunks`](crate::Scope::chunks), [`chunks_mut`](crate::Scope::chunks_mut) |
//! | `rayon::join(a, b)` | [`join(a, b)`](crate::join) inside an item; outside of items, it calls one closure after the other |
//! | `panic_handler`, `start_handler`, `exit_handler` | [`panic_handler`](crate::ExecutorBuilder::panic_handler), [`on_thread_start`](crate::ExecutorBuilder::on_thread_start), [`on_thread_stop`](crate::ExecutorBuilder::on_thread_stop) |
//!
//! `pool.install(|| words.join(" "))`, whose closure borrows `words`, becomes:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{RunError, WorkQueue};
//!
//! let (queue, words) = (WorkQueue::new("texts"), ["to", "be"]);
//! let text = queue.scope(|s| Ok::<_, RunError>(s.spawn(|| words.join(" "))?.join()?))?;
//! assert_eq!(text, "to be");
//! # Ok(())
//! # }
//! ```
//!
//! # What changes
//!
//! * **One input is one item.** rayon splits a range on its own. In cmwq, the caller chooses the size of an item: give
//!   `map` and `for_each` inputs that take many microseconds each, or divide a slice into chunks. Inside an item,
//!   [`join`](crate::join) divides work as finely as rayon does.
//! * **A wait runs no other item.** A rayon thread that waits for a `join` may run any other job on the same stack. So
//!   a job that holds a lock can deadlock if the job that the thread runs meanwhile needs this lock. In cmwq, the
//!   waiting thread sleeps, or runs parts of the work that it waits for. Other workers run all other items.
//! * **Items may block.** A read, a lock or a channel under a [guard](crate::guide::blocking) costs no CPU.
//! * **Memory stays bounded.** `map` and `for_each` keep at most 64 items in flight, or 4 for each CPU if that is more.
//!   [`window`](crate::Map::window) sets another number for `map`. An item of `map` is in flight until the program has
//!   taken its result. So while the item of the first input runs, only as many further items begin as fit into the
//!   window.
//! * **Errors are values.** If an item panics, or a shutdown drops it, `map` returns a [`RunError`](crate::RunError) in
//!   place of the item's result. After an error, `map` cancels the items that have not begun, and ends. Items that have
//!   begun still run to their end. The payload of the panic is in `RunError::Failed(JoinError::Panicked(payload))`:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::{RunError, WorkQueue};
//!
//! let queue = WorkQueue::new("squares");
//! let squares = queue.map(0..10_000u64, |n| n * n).window(16).collect::<Result<Vec<_>, RunError>>()?;
//! assert_eq!(squares[99], 9801);
//!
//! let broken = queue.map(0..10_000u64, |n| if n == 7 { panic!("seven") } else { n });
//! let error = broken.collect::<Result<Vec<_>, RunError>>().unwrap_err();
//! assert_eq!(error.to_string(), "the item panicked: seven");
//! # Ok(())
//! # }
//! ```
//!
//! * **A panic of a detached item** goes to the [`panic_handler`](crate::ExecutorBuilder::panic_handler). In rayon,
//!   such a panic ends the process unless there is a handler.
