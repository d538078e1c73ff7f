use rayon::prelude::*;
use std::sync::mpsc::channel;

fn main() {
    let (send, lengths) = channel();
    for word in ["a", "bb", "ccc"] {
        let send = send.clone();
        rayon::spawn(move || send.send(word.len()).expect("main receives it"));
    }
    drop(send);
    assert_eq!(lengths.iter().sum::<usize>(), 6);

    let mut squares: Vec<u64> = (0..1000).collect();
    squares.par_chunks_mut(100).for_each(|chunk| chunk.iter_mut().for_each(|n| *n = n.pow(2)));
    assert_eq!(squares[999], 998_001);
}
