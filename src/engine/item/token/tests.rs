//! Tests of tokens.

use std::time::Duration;

use super::*;

/// spec: I3.2 (a parent forgets its dropped children, and the drop of a long chain of tokens overflows no stack)
#[test]
fn a_parent_forgets_its_children() {
    let root = Token::new(Time::NEVER);
    for _ in 0..1000 {
        let child = root.child(Time::NEVER);
        drop((child.child(Time::NEVER), child));
    }
    assert_eq!(root.0.node.children(), 0);
    let chain = || {
        let mut tokens = vec![Token::new(Time::NEVER)];
        for last in 0..200_000 {
            tokens.push(tokens[last].child(Time::NEVER));
        }
        tokens
    };
    let cancelled = chain();
    cancelled[0].cancel();
    assert!(cancelled.last().unwrap().is_cancelled());
    drop((cancelled, chain()));
}

/// spec: I3.2 (a token that is no longer used takes no memory, even if it has children)
#[test]
fn a_child_leaves_a_parent_that_has_lost_its_handles() {
    let root = Token::new(Time::NEVER);
    let mut last = root.child(Time::NEVER);
    let first = Arc::downgrade(&last.0);
    for _ in 0..1000 {
        last = last.child(Time::NEVER);
    }
    assert_eq!(first.strong_count(), 0, "the tokens between are gone");
    // The root's only child is the last token's parent, which was in use when the last token was made.
    assert_eq!(root.0.node.children(), 1);
    let (used, other) = (last.clone(), last.child(Time::NEVER));
    assert!(other.0.parent.lock().token().is_some_and(|parent| parent.is(&used)));
    root.cancel();
    assert!(other.is_cancelled() && used.is_cancelled());
    // As with items that overlap, each token has a handle until the next token has a child.
    let root = Token::new(Time::NEVER);
    let (mut before, mut last) = (root.clone(), root.child(Time::NEVER));
    let first = Arc::downgrade(&last.0);
    for _ in 0..1000 {
        let next = last.child(Time::NEVER);
        before = std::mem::replace(&mut last, next);
    }
    assert_eq!(first.strong_count(), 0, "the tokens between are gone");
    root.cancel();
    assert!(before.is_cancelled() && last.is_cancelled());
    // In this chain of tokens, the root has lost its handles, too.
    let mut last = Token::new(Time::NEVER);
    for _ in 0..1000 {
        last = last.child(Time::NEVER);
    }
    let child = last.child(Time::NEVER);
    assert!(last.0.parent.lock().token().is_none());
    last.cancel();
    assert!(child.is_cancelled());
}

/// spec: I3.5 (a child has no later deadline than its parent)
#[test]
fn deadlines_are_inherited() {
    let (soon, late) = (clock::now() + Duration::from_secs(60), clock::now() + Duration::from_secs(600));
    let parent = Token::new(soon);
    assert_eq!(parent.child(late).deadline(), soon);
    assert_eq!(parent.child(Time::NEVER).deadline(), soon);
    assert_eq!(Token::new(late).child(soon).deadline(), soon);
    assert_eq!(parent.reason(), None);
    let over = parent.child(clock::now());
    assert_eq!((over.reason(), parent.reason()), (Some(Cancelled::DeadlinePassed), None));
    parent.cancel();
    assert_eq!(over.reason(), Some(Cancelled::Requested));
}

/// spec: I3.2 (a cancel reaches the children): several threads make children of related tokens and drop others. A
/// cancel of the root then reaches all remaining tokens.
#[test]
fn a_cancel_reaches_tokens_that_have_moved() {
    const TOKENS: usize = 8;
    for seed in 0..if cfg!(debug_assertions) { 50 } else { 500 } {
        let root = Token::new(Time::NEVER);
        let tokens = Mutex::new((0..TOKENS).map(|_| root.child(Time::NEVER)).collect::<Vec<_>>());
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let tokens = &tokens;
                threads.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed * 4 + thread);
                    for _ in 0..200 {
                        let parent = tokens.lock()[random.usize(..TOKENS)].clone();
                        let child = parent.child(Time::NEVER);
                        drop(parent);
                        let left = std::mem::replace(&mut tokens.lock()[random.usize(..TOKENS)], child);
                        drop(left);
                    }
                });
            }
        });
        root.cancel();
        assert!(tokens.lock().iter().all(Token::is_cancelled), "seed {seed}");
    }
}
