//! `GET /metrics`, for Prometheus.

use std::error::Error;
use std::sync::{Mutex, PoisonError};

use cmwq::Executor;
use cmwq::metrics::Collector;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

pub(crate) struct Numbers {
    exporter: PrometheusHandle,
    collector: Mutex<Collector>,
}

impl Numbers {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            exporter: PrometheusBuilder::new().install_recorder()?,
            collector: Mutex::new(Collector::new(Executor::global())),
        })
    }

    /// Returns the present numbers.
    pub(crate) fn text(&self) -> String {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner).collect();
        // The exporter has no listener that would do this.
        self.exporter.run_upkeep();
        self.exporter.render()
    }
}
