//! Writes all events of `tracing` to a file, with items under their names.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_chrome::{ChromeLayerBuilder, EventOrSpan, FlushGuard};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Starts recording. The file is complete when the guard is dropped.
pub(crate) fn start(file: &OsStr) -> Result<FlushGuard, Box<dyn Error>> {
    let file = File::create(file)?;
    let (chrome, guard) = ChromeLayerBuilder::new()
        .writer(file)
        .include_args(true)
        .include_locations(false)
        .name_fn(Box::new(|recorded| match recorded {
            EventOrSpan::Event(event) => event.metadata().name().to_owned(),
            EventOrSpan::Span(span) => match span.extensions().get::<ItemName>() {
                Some(ItemName(name)) => name.clone(),
                None => span.metadata().name().to_owned(),
            },
        }))
        .build();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(NamesItems).with(chrome))?;
    Ok(guard)
}

/// The name of an item's span, which is that of the function without its modules.
struct ItemName(String);

/// A layer that gives the spans of items their names. It comes before the layer that writes the spans.
struct NamesItems;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for NamesItems {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() != cmwq::trace::TARGET {
            return;
        }
        let mut name = ItemName(String::new());
        attributes.record(&mut name);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(name);
        }
    }
}

impl Visit for ItemName {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "function" {
            value.rsplit("::").next().unwrap_or(value).clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
