use std::sync::mpsc::channel;
use threadpool::ThreadPool;

fn main() {
    let pool = ThreadPool::new(4);
    let (send, squares) = channel();
    for n in 0..8u64 {
        let send = send.clone();
        pool.execute(move || send.send(n * n).expect("main receives it"));
    }
    pool.join();
    drop(send);
    assert_eq!(squares.iter().sum::<u64>(), 140);
}
