//! The subscriber of these tests, which keeps all events that it receives.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use testkit::{SOON, polled};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The subscriber panics at events of a queue with this name.
pub(crate) const PANICS: &str = "panics";

/// An event that the subscriber has received.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) target: String,
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The spans around the event, with their fields.
    pub(crate) within: Vec<String>,
    /// For each of these spans, its id and that of its parent.
    pub(crate) ids: Vec<(u64, Option<u64>)>,
    pub(crate) thread: String,
    pub(crate) at: Instant,
}

impl Told {
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("it has no {name}: {self:?}"))
    }
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// The hooks by the names of their queues.
type Hooks = Vec<(&'static str, Hook)>;

static ALL: Mutex<Vec<Told>> = Mutex::new(Vec::new());
static HOOKS: Mutex<Hooks> = Mutex::new(Vec::new());

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

struct Ear;

/// The recorded part of a span.
struct Written {
    text: String,
    panics: bool,
}

fn panics_on(fields: &Fields) -> bool {
    fields.0.get("workqueue").is_some_and(|queue| queue == PANICS)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Ear {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut text = attributes.metadata().name().to_owned();
        fields.0.iter().for_each(|(name, value)| write!(text, " {name}={value}").unwrap());
        let written = Written { text, panics: panics_on(&fields) };
        context.span(id).unwrap().extensions_mut().insert(written);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        panic_if_asked(id, &context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        panic_if_asked(id, &context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        panic_if_asked(&id, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        assert!(!panics_on(&fields), "as it was asked to");
        let queue = fields.0.get("workqueue").cloned();
        let metadata = event.metadata();
        let text = |span: tracing_subscriber::registry::SpanRef<'_, S>| {
            span.extensions().get::<Written>().map(|written| written.text.clone()).unwrap_or_default()
        };
        let ids = |span: tracing_subscriber::registry::SpanRef<'_, S>| {
            (span.id().into_u64(), span.parent().map(|parent| parent.id().into_u64()))
        };
        let told = Told {
            name: metadata.name(),
            target: metadata.target().to_owned(),
            level: *metadata.level(),
            fields: fields.0,
            within: context.event_scope(event).into_iter().flatten().map(text).collect(),
            ids: context.event_scope(event).into_iter().flatten().map(ids).collect(),
            thread: std::thread::current().name().unwrap_or_default().to_owned(),
            at: Instant::now(),
        };
        let hooks = if told.name == "queue_work" { lock(&HOOKS).clone() } else { Vec::new() };
        let hook = hooks.into_iter().find(|(hooked, _)| queue.as_deref() == Some(*hooked));
        lock(&ALL).push(told);
        hook.inspect(|(_, hook)| hook());
    }
}

fn panic_if_asked<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, context: &Context<'_, S>) {
    let panics = context
        .span(id)
        .is_some_and(|span| span.extensions().get::<Written>().is_some_and(|written| written.panics));
    assert!(!panics, "as it was asked to");
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the subscriber of this process.
pub(crate) fn listen() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Ear);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// From now on, each submission to the queue with this name calls the hook.
pub(crate) fn on_queue_work(queue: &'static str, hook: impl Fn() + Send + Sync + 'static) {
    lock(&HOOKS).push((queue, Arc::new(hook)));
}

pub(crate) fn forget_hook(queue: &str) {
    let mut hooks = lock(&HOOKS);
    let hook = hooks.iter().position(|(hooked, _)| *hooked == queue).map(|at| hooks.remove(at));
    drop(hooks);
    drop(hook);
}

/// Returns the events of this queue that were received so far.
pub(crate) fn told_of(queue: &str) -> Vec<Told> {
    let all = lock(&ALL);
    let of_queue = |told: &&Told| told.fields.get("workqueue").is_some_and(|name| name == queue);
    all.iter().filter(of_queue).cloned().collect()
}

pub(crate) fn of_target(target: &str) -> Vec<Told> {
    lock(&ALL).iter().filter(|told| told.target == target).cloned().collect()
}

/// Waits until the queue has so many events of this name, and returns the queue's events. The wait is needed, because a
/// join may return before the worker sends them.
#[track_caller]
pub(crate) fn until_told(queue: &str, name: &str, times: usize) -> Vec<Told> {
    let mut told = Vec::new();
    let are_there = || {
        told = told_of(queue);
        told.iter().filter(|told| told.name == name).count() >= times
    };
    let are_there = polled(Duration::from_millis(1), SOON, are_there);
    assert!(are_there, "{name} of {queue} was not told {times} times: {told:#?}");
    told
}

pub(crate) fn names(told: &[Told]) -> Vec<&'static str> {
    told.iter().map(|told| told.name).collect()
}
