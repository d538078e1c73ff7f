//! Models of [`ScopeCell`](crate::protocol::scope::ScopeCell): items that borrow from the waiter's stack.
//!
//! Items end and spawn other items while the body of the scope ends. The waiter is woken, sees what every item did, and
//! frees the cell, which lies on the waiter's stack. loom reports every later access to the cell.
//!
//! Red under: `scope-leave-without-acquire`, `scope-leave-without-release`, `scope-sleeps-without-a-look`.

use std::sync::Arc;

use loom::thread;

use super::{Data, Owned, check};
use crate::protocol::scope::ScopeCell;

struct Scope {
    cell: ScopeCell,
    borrowed: [Data<u32>; 2],
}

type Shared = Arc<Owned<Scope>>;

/// Does what a worker does at the end of an item.
fn run(scope: &Shared, index: usize) {
    scope.borrowed[index].write(|value| *value += 1);
    let key = scope.cell.key();
    if scope.cell.leave() {
        ScopeCell::wake(key);
    }
}

/// Does what the waiter does at the end of the scope's body.
fn end(scope: &Shared) {
    if !scope.cell.leave() {
        scope.cell.wait();
    }
    let sum: u32 = scope.borrowed.iter().map(|value| value.read(|value| *value)).sum();
    assert_eq!(sum, 2);
    scope.free();
}

fn open() -> Shared {
    Arc::new(Owned::new(Scope { cell: ScopeCell::new(), borrowed: [Data::new(0), Data::new(0)] }))
}

/// spec: W7.1
#[test]
fn the_waiter_sees_what_all_items_did() {
    check(4, || {
        let scope = open();
        let items: Vec<_> = (0..2)
            .map(|index| {
                scope.cell.enter();
                let scope = scope.clone();
                thread::spawn(move || run(&scope, index))
            })
            .collect();
        end(&scope);
        for item in items {
            item.join().unwrap();
        }
    });
}

/// spec: W7.1
#[test]
fn an_item_spawns_another_one_while_the_body_ends() {
    check(4, || {
        let scope = open();
        scope.cell.enter();
        let item = {
            let scope = scope.clone();
            thread::spawn(move || {
                scope.cell.enter();
                let inner = {
                    let scope = scope.clone();
                    thread::spawn(move || run(&scope, 1))
                };
                run(&scope, 0);
                inner.join().unwrap();
            })
        };
        end(&scope);
        item.join().unwrap();
    });
}
