//! The calls, and their items.

use std::pin::Pin;
use std::task::{Context, Poll};

use cmwq::{Cancelled, JoinError, Permit, QueueError, StopOnDrop, WorkQueue};
use futures_util::stream::{self, Stream, StreamExt};
use sha2::{Digest as _, Sha512};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_service::digest::digest_server::Digest;
use tonic_service::digest::{SumReply, SumRequest};

use crate::{Asked, moment};

const MOST_ROUNDS: u64 = 10_000_000;

/// The number of rounds between two checks of the token. A round takes a third of a microsecond, and a check some
/// nanoseconds.
const ROUNDS_BETWEEN_LOOKS: u64 = 64;

/// The number of requests of one stream that are in the queue at a time.
const WINDOW: usize = 16;

pub(crate) struct Service {
    queue: WorkQueue,
    asked: Asked,
}

impl Service {
    pub(crate) fn new(queue: WorkQueue, asked: Asked) -> Self {
        Self { queue, asked }
    }
}

#[tonic::async_trait]
impl Digest for Service {
    async fn sum(&self, request: Request<SumRequest>) -> Result<Response<SumReply>, Status> {
        let permit = self.queue.try_reserve().map_err(refused)?;
        Ok(Response::new(begin(permit, request.into_inner())?.await?))
    }

    type SumsStream = Pin<Box<dyn Stream<Item = Result<SumReply, Status>> + Send>>;

    async fn sums(
        &self,
        requests: Request<Streaming<SumRequest>>,
    ) -> Result<Response<Self::SumsStream>, Status> {
        let queue = self.queue.clone();
        let replies = until_asked(requests.into_inner(), self.asked.clone()).map(move |request| {
            let queue = queue.clone();
            async move {
                let request = request?;
                let permit = queue.reserve_async().await.map_err(refused)?;
                begin(permit, request)?.await
            }
        });
        // These futures need no task. The connection polls them when the client reads replies, and drops them when the
        // client goes away.
        Ok(Response::new(Box::pin(replies.buffered(WINDOW))))
    }
}

/// Ends a stream of requests when the service is asked to end. Requests that were accepted before that are answered.
fn until_asked(
    requests: Streaming<SumRequest>,
    asked: Asked,
) -> impl Stream<Item = Result<SumRequest, Status>> + Send {
    stream::unfold(Some(requests), move |requests| {
        let asked = asked.clone();
        async move {
            let mut requests = requests?;
            tokio::select! {
                _ = moment(asked) => Some((Err(ending()), None)),
                next = requests.message() => match next.transpose()? {
                    Ok(request) => Some((Ok(request), Some(requests))),
                    Err(status) => Some((Err(status), None)),
                },
            }
        }
    })
}

/// Queues the item for a request. The item uses the place that the permit reserves.
fn begin(permit: Permit, SumRequest { data, rounds }: SumRequest) -> Result<Running, Status> {
    if rounds > MOST_ROUNDS {
        return Err(Status::invalid_argument(format!("{rounds} rounds are more than {MOST_ROUNDS}")));
    }
    let item = permit.spawn(move || {
        let token = cmwq::cancel_token();
        let mut sum = Sha512::digest(data);
        for round in 1..rounds {
            if round % ROUNDS_BETWEEN_LOOKS == 0 {
                token.check()?;
            }
            sum = Sha512::digest(sum);
        }
        Ok(SumReply { sum: sum.to_vec() })
    });
    item.map(|item| Running(item.stop_on_drop())).map_err(|error| refused(error.error))
}

/// An item that a call awaits. If the call ends early, this value is dropped. The drop cancels an item that has not
/// begun, and asks an item that has begun to stop.
struct Running(StopOnDrop<Result<SumReply, Cancelled>>);

impl Future for Running {
    type Output = Result<SumReply, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|result| match result {
            Ok(reply) => reply.map_err(|_: Cancelled| ending()),
            // The panic hook has reported the panic.
            Err(JoinError::Panicked(_)) => Err(Status::internal("this failed")),
            Err(_) => Err(ending()),
        })
    }
}

fn refused(error: QueueError) -> Status {
    if error != QueueError::Full {
        return ending();
    }
    // Clients with a retry policy wait for this number of milliseconds.
    let mut metadata = MetadataMap::new();
    metadata.insert("grpc-retry-pushback-ms", MetadataValue::from_static("1000"));
    Status::with_metadata(Code::Unavailable, "busy, try again in a second", metadata)
}

fn ending() -> Status {
    Status::unavailable("the service is ending")
}
