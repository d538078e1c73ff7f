//! The parents of the spans in which items run.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use cmwq::{Work, WorkQueue};
use tiny_http::{Response, Server};

use crate::subscriber::{Told, listen, of_target};

fn say(what: &'static str) {
    tracing::info!(target: "traces", what);
}

#[track_caller]
fn said(what: &str) -> Told {
    let told = of_target("traces").into_iter().find(|told| told.field("what") == what);
    told.unwrap_or_else(|| panic!("nothing was said of {what}"))
}

/// Returns the names of the spans around an event, the innermost span first.
#[track_caller]
fn around(what: &str) -> Vec<String> {
    said(what).within.iter().map(|span| span.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// spec: I2.7 (one connected trace): a request's handler submits an item, and that item submits others.
#[test]
fn a_request_and_its_items_are_one_trace() {
    listen();
    let executor = crate::one_cpu().build().unwrap();
    let queue = WorkQueue::builder("traced").build_on(&executor).unwrap();
    let inner = queue.clone();
    let handler = || {
        queue.spawn(move || {
            say("outer");
            let periodic = inner.item(|| say("tick")).spawn_every(Duration::from_millis(1)).unwrap();
            inner.item(|| say("later")).after(Duration::from_millis(2)).spawn().unwrap().join().unwrap();
            let work = Work::new(|| say("work"));
            inner.enqueue(&work).unwrap();
            work.flush().unwrap();
            inner.spawn(|| say("inner")).unwrap().join().unwrap();
            cmwq::blocking(|| testkit::eventually("ticks", || periodic.runs() > 3));
            drop(periodic);
        })
    };
    let request = tracing::info_span!("request");
    request.in_scope(handler).unwrap().join().unwrap();
    queue.flush().unwrap();
    assert_eq!(around("outer"), ["execute", "request"]);
    for what in ["later", "work", "inner", "tick"] {
        assert_eq!(around(what), ["execute", "execute", "request"], "{what}");
    }
    let ticks = of_target("traces").into_iter().filter(|told| told.field("what") == "tick");
    let depths: Vec<usize> = ticks.map(|told| told.within.len()).collect();
    assert!(
        depths.len() > 2 && depths.iter().all(|depth| *depth == 3),
        "no tick is the child of another: {depths:?}"
    );
    queue.spawn(|| say("alone")).unwrap().join().unwrap();
    assert_eq!(around("alone"), ["execute"], "a submission outside of spans begins a trace of its own");
}

/// spec: I2.7 (one connected trace, by the ids of parents): the handler of an HTTP request submits an item, and
/// that item submits another one.
#[test]
fn an_http_request_and_its_items_are_one_trace() {
    listen();
    let executor = crate::one_cpu().build().unwrap();
    let queue = WorkQueue::builder("pages").build_on(&executor).unwrap();
    let server = Server::http("127.0.0.1:0").unwrap();
    let address = server.server_addr().to_ip().unwrap();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let request = server.recv().unwrap();
    let span = tracing::info_span!("http", path = request.url());
    let handler = || {
        let inner = queue.clone();
        queue
            .spawn(move || {
                say("page");
                inner.spawn(|| say("part")).unwrap().join().unwrap();
                request.respond(Response::from_string("done")).unwrap();
            })
            .unwrap()
    };
    span.in_scope(handler).join().unwrap();
    assert!(client.join().unwrap().ends_with("done"));

    let (page, part) = (said("page").ids, said("part").ids);
    let [(of_page, of_request), root] = page[..] else { panic!("{page:?}") };
    assert_eq!(root, (span.id().unwrap().into_u64(), None), "the trace begins with the request");
    assert_eq!(of_request, Some(root.0), "the item is a child of the request");
    let [(of_part, parent), above @ ..] = &part[..] else { panic!("{part:?}") };
    assert_eq!((*parent, above), (Some(of_page), &page[..]), "the second item is a child of the first one");
    assert_ne!(*of_part, of_page);
}

/// spec: I2.7: the hook `current_span` makes the issuer's span current only if no span of an item is current.
#[test]
fn the_ready_hook_leaves_the_span_of_the_item() {
    listen();
    let executor = crate::one_cpu().build().unwrap();
    let builder = WorkQueue::builder("hooked").carry(cmwq::trace::current_span);
    let queue = builder.build_on(&executor).unwrap();
    let request = tracing::info_span!("request");
    request.in_scope(|| queue.spawn(|| say("hooked"))).unwrap().join().unwrap();
    assert_eq!(around("hooked"), ["execute", "request"]);
    let enter = request.in_scope(cmwq::trace::current_span);
    std::thread::spawn(|| {
        let _entered = enter();
        say("elsewhere");
    })
    .join()
    .unwrap();
    assert_eq!(around("elsewhere"), ["request"]);
}

/// spec: I2.7 (several subscribers): if the issuer has another subscriber than the worker, the worker's subscriber gets
/// no span of the issuer.
#[test]
fn a_span_goes_to_no_other_subscriber() {
    listen();
    let executor = crate::one_cpu().build().unwrap();
    let plain = WorkQueue::builder("plain").build_on(&executor).unwrap();
    let hooked = WorkQueue::builder("hooked").carry(cmwq::trace::current_span).build_on(&executor).unwrap();
    // The ids of this subscriber's spans begin anew, so they could be confused with those of the other subscriber.
    let own = tracing_subscriber::registry();
    tracing::subscriber::with_default(own, || {
        let requests = [(); 3].map(|()| tracing::info_span!("request"));
        for request in &requests {
            request.in_scope(|| plain.spawn(|| say("unknown"))).unwrap().join().unwrap();
            request.in_scope(|| hooked.spawn(|| say("unknown"))).unwrap().join().unwrap();
        }
    });
    let told: Vec<_> =
        of_target("traces").into_iter().filter(|told| told.field("what") == "unknown").collect();
    assert_eq!(told.len(), 6);
    for told in told {
        assert_eq!(told.within.len(), 1, "{told:?}");
        assert!(told.within[0].starts_with("execute "), "{told:?}");
    }
}

/// spec: I2.7, I2.3: if a cancelled item is queued again and uses its old entry, its run belongs to the later request.
#[test]
fn an_item_that_is_queued_again_belongs_to_the_later_request() {
    listen();
    let executor = crate::one_cpu().build().unwrap();
    let queue = WorkQueue::builder("anew").max_active(1).build_on(&executor).unwrap();
    let (open, opened) = mpsc::channel();
    drop(queue.spawn(move || cmwq::blocking(|| opened.recv())).unwrap());
    let work = Work::new(|| say("anew"));
    tracing::info_span!("former").in_scope(|| queue.enqueue(&work)).unwrap();
    assert!(work.cancel());
    assert!(tracing::info_span!("later").in_scope(|| queue.enqueue(&work)).unwrap());
    open.send(()).unwrap();
    work.flush().unwrap();
    assert_eq!(around("anew"), ["execute", "later"]);
}
