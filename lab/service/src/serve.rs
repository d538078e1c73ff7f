//! The service. It prints its address, and serves until its input ends. Then it prints its usage of resources.

use std::io::{self, Read, Write};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::Failure;
use crate::engine::{Engine, Name};
use crate::setup::BLOCK;
use crate::work::{Work, cpu_time};

pub(crate) struct Task {
    pub(crate) engine: Name,
    /// The number of hashes that a request for `/compute` computes.
    pub(crate) hashes: u32,
}

/// The resources that the process has used.
#[derive(Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// The number of threads at the end of the load.
    pub(crate) threads: Option<usize>,
}

#[derive(Clone)]
struct Service {
    engine: Arc<Engine>,
    hashes: u32,
}

pub(crate) fn serve(task: &Task) -> Result<(), Failure> {
    // The runtime has as many worker threads as there are CPUs, with every engine.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let engine = Arc::new(Engine::start(task.engine)?);
    let service = Service { engine, hashes: task.hashes };
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    runtime.spawn(async move { axum::serve(listener, router(service)).await });
    io::stdin().read_to_end(&mut Vec::new())?;
    let threads = std::fs::read_dir("/proc/self/task").ok().map(Iterator::count);
    let usage = Usage { cpu_seconds: cpu_time(ClockId::ProcessCPUTime), threads };
    println!("{}", serde_json::to_string(&usage)?);
    runtime.shutdown_background();
    Ok(())
}

fn router(service: Service) -> Router {
    let compute = async |State(service): State<Service>| {
        answer(&service, Work::Compute { hashes: service.hashes }).await
    };
    let block = async |State(service): State<Service>| answer(&service, Work::Block { time: BLOCK }).await;
    Router::new()
        .route("/health", get(async || "healthy\n"))
        .route("/compute", get(compute))
        .route("/block", get(block))
        .with_state(service)
}

async fn answer(service: &Service, work: Work) -> (StatusCode, String) {
    match service.engine.run(work).await {
        Ok(result) => (StatusCode::OK, format!("{result:016x}\n")),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "busy\n".to_owned()),
    }
}
