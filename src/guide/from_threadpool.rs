//! Coming from the crate `threadpool`.
//!
//! A pool becomes a queue. The queue has a name instead of a number of threads, because all queues share the threads of
//! one executor. In this program, six lines change:
//!
//! ```diff
//!  use std::sync::mpsc::channel;
//! -use threadpool::ThreadPool;
//! +use cmwq::WorkQueue;
//!
//! -fn main() {
//! -    let pool = ThreadPool::new(4);
//! +fn main() -> Result<(), Box<dyn std::error::Error>> {
//! +    let pool = WorkQueue::new("squares");
//!      let (send, squares) = channel();
//!      for n in 0..8u64 {
//!          let send = send.clone();
//! -        pool.execute(move || send.send(n * n).expect("main receives it"));
//! +        pool.spawn_detached(move || send.send(n * n).expect("main receives it"))?;
//!      }
//! -    pool.join();
//! +    pool.wait_idle()?;
//!      drop(send);
//!      assert_eq!(squares.iter().sum::<u64>(), 140);
//! +    Ok(())
//!  }
//! ```
//!
//! Afterwards:
//!
//! ```
//! use std::sync::mpsc::channel;
//! use cmwq::WorkQueue;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pool = WorkQueue::new("squares");
//!     let (send, squares) = channel();
//!     for n in 0..8u64 {
//!         let send = send.clone();
//!         pool.spawn_detached(move || send.send(n * n).expect("main receives it"))?;
//!     }
//!     pool.wait_idle()?;
//!     drop(send);
//!     assert_eq!(squares.iter().sum::<u64>(), 140);
//!     Ok(())
//! }
//! ```
//!
//! A result needs no channel: [`spawn`](crate::WorkQueue::spawn) returns a handle with which to join the item, and
//! [`map`](crate::WorkQueue::map) returns the results in the order of the inputs.
//!
//! # Names
//!
//! | `threadpool` | cmwq |
//! |---|---|
//! | `ThreadPool::new(n)` | [`WorkQueue::new(name)`](crate::WorkQueue::new); to keep the bound, `WorkQueue::builder(name)` with [`max_active_total(n)`](crate::WorkQueueBuilder::max_active_total) |
//! | `ThreadPool::with_name`, `Builder::thread_name` | the name of the queue; threads have the [prefix](crate::ExecutorBuilder::thread_name_prefix) of their executor, or the queue's name if [`name_threads`](crate::WorkQueueBuilder::name_threads) is set |
//! | `Builder::thread_stack_size` | [`ExecutorBuilder::stack_size`](crate::ExecutorBuilder::stack_size) |
//! | `execute` | [`spawn_detached`](crate::WorkQueue::spawn_detached) |
//! | `join` | [`wait_idle`](crate::WorkQueue::wait_idle); or [`flush`](crate::WorkQueue::flush), which does not wait for items that are queued later |
//! | `active_count`, `queued_count` | [`running`](crate::WorkQueue::running), [`waiting`](crate::WorkQueue::waiting) |
//! | `panic_count` | `panicked` of [`counters`](crate::WorkQueue::counters) |
//! | `max_count`, `set_num_threads` | [`max_active`](crate::WorkQueue::max_active), [`set_max_active`](crate::WorkQueue::set_max_active) |
//!
//! # What changes
//!
//! * **The number of threads follows the work.** A queue of [`WorkQueue::new`](crate::WorkQueue::new) runs as many
//!   items at a time as there are CPUs. Items run near their issuer while CPUs there are free. If an item blocks under
//!   a [guard](crate::guide::blocking), another item starts. So if a pool had 64 threads because its jobs wait for a
//!   disk, the queue needs guards, not a number of threads.
//! * **Two pools become two queues, and share the threads.** Together, the two queues run no more items than one queue,
//!   because they belong to the same [class](crate#classes).
//! * **A job may wait for another job.** In a pool with a fixed number of threads, jobs that wait for jobs behind them
//!   can hold all threads for ever. In cmwq, a join has a guard: while an item waits in a join, another item runs. At
//!   most [`max_threads`](crate::ExecutorBuilder::max_threads) items can wait for other items at the same time.
//! * **A call can be refused.** `execute` never fails. A queue refuses items when it is full, drained, destroyed, or
//!   shut down, and the error [returns the closure](crate::Refused::into_closure).
//! * **A panic ends only its item.** No thread is replaced. The joiner of the item and the
//!   [`panic_handler`](crate::ExecutorBuilder::panic_handler) learn of the panic.
