//! `GET /metrics`, for Prometheus: the counts of all queues, and the account of the jobs.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use cmwq::Executor;
use cmwq::blocking::sync::Mutex;
use cmwq::metrics::Collector;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::jobs::Account;

pub(crate) struct Numbers {
    exporter: PrometheusHandle,
    collector: Mutex<Collector>,
    account: Arc<Account>,
}

impl Numbers {
    pub(crate) fn new(account: &Arc<Account>) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            exporter: PrometheusBuilder::new().install_recorder()?,
            collector: Mutex::new(Collector::new(Executor::global())),
            account: Arc::clone(account),
        })
    }

    /// Returns the present numbers.
    pub(crate) fn text(&self) -> String {
        self.collector.lock().collect();
        for (outcome, count) in [
            ("finished", &self.account.finished),
            ("given up", &self.account.given_up),
            ("shed", &self.account.shed),
        ] {
            metrics::counter!("service_jobs_total", "outcome" => outcome).absolute(count.load(Relaxed));
        }
        // An exporter with a listener does this itself, but this exporter has no listener.
        self.exporter.run_upkeep();
        self.exporter.render()
    }
}
