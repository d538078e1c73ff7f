//! The requests, and their answers.

use std::io;
use std::path::{Component, Path as FilePath};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use cmwq::{Cancelled, JoinError, QueueError};
use serde::Deserialize;
use tokio::time::timeout;

use crate::work::{Failure, MOST_BYTES, Work};

const MOST_ROUNDS: u64 = 10_000_000;

/// A request loses its place in the queue if its body takes longer than this.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn router(work: Work) -> Router {
    Router::new()
        .route("/hash", post(hash))
        .route("/files/{name}", get(file))
        // These two requests need no queue.
        .route("/health", get(async || "healthy\n"))
        .route("/metrics", get(async |State(work): State<Work>| work.metrics()))
        .with_state(work)
}

#[derive(Deserialize)]
struct Options {
    #[serde(default = "one")]
    rounds: u64,
}

fn one() -> u64 {
    1
}

/// Answers with the SHA-512 of the body, or immediately with 503 if the queue has no room.
async fn hash(
    State(work): State<Work>,
    Query(options): Query<Options>,
    body: Body,
) -> Result<String, Failed> {
    if !(1..=MOST_ROUNDS).contains(&options.rounds) {
        return Err(Failed::Invalid(format!("rounds are between 1 and {MOST_ROUNDS}")));
    }
    // An overloaded service reads no bodies.
    let permit = work.hashes.try_reserve()?;
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return Err(Failed::Body(error)),
        Err(_) => return Err(Failed::Slow),
    };
    let sum = Work::hash(permit, body, options.rounds).await??;
    Ok(sum + "\n")
}

/// Answers with a file, after waiting for room in the queue for up to `--patience`.
async fn file(State(work): State<Work>, Path(name): Path<String>) -> Result<Vec<u8>, Failed> {
    let name = FilePath::new(&name);
    // A name with `..` or `/` could lead out of the folder.
    let mut parts = name.components();
    let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
        return Err(Failed::Invalid("this is no name of a file".into()));
    };
    let permit = timeout(work.patience, work.files.reserve_async()).await.map_err(|_| Failed::Busy)??;
    work.read(permit, name).await?.map_err(Failed::File)
}

/// The reason why a request fails.
enum Failed {
    Busy,
    Slow,
    Ending,
    Invalid(String),
    Body(axum::Error),
    File(io::Error),
    Panicked,
}

impl From<QueueError> for Failed {
    fn from(error: QueueError) -> Self {
        if error == QueueError::Full { Self::Busy } else { Self::Ending }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error.into(),
            Failure::Ended(JoinError::Panicked(_)) => Self::Panicked,
            Failure::Ended(_) => Self::Ending,
        }
    }
}

impl From<Cancelled> for Failed {
    fn from(_: Cancelled) -> Self {
        Self::Ending
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let later = [(RETRY_AFTER, "1")];
        match self {
            Self::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, later, "busy, try again in a second\n").into_response()
            }
            Self::Ending => {
                (StatusCode::SERVICE_UNAVAILABLE, later, "the service is ending\n").into_response()
            }
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n").into_response(),
            Self::Invalid(text) => (StatusCode::BAD_REQUEST, text + "\n").into_response(),
            // The body is too long, or was cut off. If it was cut off, no client reads this answer.
            Self::Body(error) => (StatusCode::PAYLOAD_TOO_LARGE, format!("{error}\n")).into_response(),
            Self::File(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => {
                    (StatusCode::NOT_FOUND, "there is no such file\n").into_response()
                }
                _ => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
            },
            // The panic hook has reported the panic.
            Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "this failed\n").into_response(),
        }
    }
}
