//! Tests the service over gRPC.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest as _, Sha512};
use testkit::{output, wait};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_service::digest::digest_client::DigestClient;
use tonic_service::digest::{SumReply, SumRequest};

/// A time limit. Even on a busy machine, each of these tests takes less time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A number of rounds that takes a tenth of a second or more, and some seconds without optimisation.
const LONG: u64 = 300_000;

struct Service {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Service {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tonic-service"));
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the service prints its address");
        let address = line.trim_end().strip_prefix("listening on http://").expect("an address").to_owned();
        Self { process, output, address }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("an address");
        endpoint.connect().await.expect("it listens")
    }

    async fn client(&self) -> DigestClient<Channel> {
        DigestClient::new(self.channel().await)
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it is there");
    }

    /// Waits for the end of the service, and returns its status and its remaining output.
    async fn end(mut self) -> (ExitStatus, String) {
        let end = move || {
            let status = wait(&mut self.process, PATIENCE).expect("it ends");
            let mut text = String::new();
            self.output.read_to_string(&mut text).expect("its output ends with it");
            (status, text)
        };
        spawn_blocking(end).await.expect("no panic")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
    }
}

fn request(number: usize, rounds: u64) -> SumRequest {
    SumRequest { data: number.to_string().into(), rounds }
}

fn sum_of(number: usize, rounds: u64) -> SumReply {
    let mut sum = Sha512::digest(number.to_string());
    for _ in 1..rounds {
        sum = Sha512::digest(sum);
    }
    SumReply { sum: sum.to_vec() }
}

fn is_shed(status: &Status) -> bool {
    let pushback = status.metadata().get("grpc-retry-pushback-ms");
    status.code() == Code::Unavailable && pushback.is_some_and(|time| time == "1000")
}

/// spec: I1.8
#[tokio::test]
async fn the_service_answers_calls() {
    let service = Service::start(&[]);
    let mut client = service.client().await;
    for rounds in [0, 1, 3] {
        let reply = client.sum(request(7, rounds)).await.expect("a reply");
        assert_eq!(reply.into_inner(), sum_of(7, rounds));
    }
    let error = client.sum(request(7, u64::MAX)).await.expect_err("too many rounds");
    assert_eq!(error.code(), Code::InvalidArgument);
    drop(client);
    service.terminate();
    let (status, text) = service.end().await;
    assert!(status.success() && text.starts_with("stopping\n"), "{text}");
}

/// spec: I1.8: of many calls at the same time, some are answered and the others are shed. At the same time, the service
/// answers health checks with SERVING.
#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_bound_are_shed_and_the_service_stays_healthy() {
    let service = Service::start(&["--active", "2", "--pending", "2"]);
    let client = service.client().await;
    let mut health = HealthClient::new(service.channel().await);
    let check = HealthCheckRequest { service: "digest.Digest".into() };
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let mut client = client.clone();
        calls.spawn(async move { (number, client.sum(request(number, 20_000)).await) });
    }
    let (mut done, mut shed, mut slowest) = (0, 0, Duration::ZERO);
    while let Some(call) = calls.join_next().await {
        let (number, reply) = call.expect("no panic");
        match reply {
            Ok(reply) => {
                assert_eq!(reply.into_inner(), sum_of(number, 20_000));
                done += 1;
            }
            Err(status) => {
                assert!(is_shed(&status), "{status:?}");
                shed += 1;
            }
        }
        let begin = Instant::now();
        let status = health.check(check.clone()).await.expect("an answer").into_inner().status();
        assert_eq!(status.as_str_name(), "SERVING");
        slowest = slowest.max(begin.elapsed());
    }
    assert!(done >= 2 && shed >= 2, "{done} done, {shed} shed");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

/// spec: I1.8: a stream sends 500 requests through a queue of two places. No request is refused, and the replies are in
/// order.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_waits_for_room() {
    let service = Service::start(&["--active", "1", "--pending", "2"]);
    let mut client = service.client().await;
    let requests = stream::iter((0..500).map(|number| request(number, 100)));
    let mut replies = client.sums(requests).await.expect("accepted").into_inner();
    for number in 0..500 {
        let reply = timeout(PATIENCE, replies.message()).await.expect("in time").expect("no error");
        assert_eq!(reply, Some(sum_of(number, 100)));
    }
    assert_eq!(replies.message().await.expect("no error"), None);
}

/// spec: I1.8: on SIGTERM, the service finishes its calls, and ends a stream that would go on for ever.
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_finished_at_the_end() {
    let service = Service::start(&["--active", "1", "--pending", "1", "--grace", "100"]);
    let mut client = service.client().await;
    let endless = stream::once(async { request(0, 1) }).chain(stream::pending());
    let mut replies = client.sums(Request::new(endless)).await.expect("accepted").into_inner();
    assert_eq!(replies.message().await.expect("no error"), Some(sum_of(0, 1)));

    let mut calls = JoinSet::new();
    for number in 0..3 {
        let mut client = client.clone();
        calls.spawn(async move { (number, client.sum(request(number, LONG)).await) });
    }
    // One call is shed, so another call has the place.
    let (_, first) = calls.join_next().await.expect("three calls").expect("no panic");
    assert!(is_shed(&first.expect_err("no call is done so soon")));
    service.terminate();
    let mut done = 0;
    while let Some(call) = calls.join_next().await {
        let (number, reply) = call.expect("no panic");
        match reply {
            Ok(reply) => {
                assert_eq!(reply.into_inner(), sum_of(number, LONG));
                done += 1;
            }
            Err(status) => assert!(is_shed(&status), "{status:?}"),
        }
    }
    assert!(done >= 1, "no call was accepted");
    let status = timeout(PATIENCE, replies.message()).await.expect("in time").expect_err("it ends");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the service is ending"));
    assert!(TcpStream::connect(&service.address).is_err());
    let (status, text) = service.end().await;
    assert!(status.success() && text.starts_with("stopping\n"), "{text}");
}

/// spec: I1.8: a call that takes too long does not keep the service from ending.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_has_a_time_limit() {
    let service = Service::start(&["--active", "1", "--pending", "1", "--grace", "0"]);
    let client = service.client().await;
    let mut calls = JoinSet::new();
    for number in 0..3 {
        let mut client = client.clone();
        calls.spawn(async move { client.sum(request(number, LONG)).await });
    }
    let first = calls.join_next().await.expect("three calls").expect("no panic");
    assert!(is_shed(&first.expect_err("no call is done so soon")));
    service.terminate();
    let (status, text) = service.end().await;
    // The items are asked to stop, so they may have ended before the report.
    assert!(text.contains("calls that took too long"), "{text}");
    assert_eq!(status.code(), Some(1), "{text}");
    while let Some(call) = calls.join_next().await {
        call.expect("no panic").expect_err("cut off, or shed");
    }
}

/// spec: I1.8: the item of a call that ends early stops. So the next call is served long before that item would have
/// ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_early_stops_its_item() {
    let service = Service::start(&["--active", "1", "--pending", "2"]);
    let client = service.client().await;
    let begin = Instant::now();
    client.clone().sum(request(0, LONG)).await.expect("a reply");
    let usual = begin.elapsed();

    let mut calls = JoinSet::new();
    let mut long = client.clone();
    calls.spawn(async move { long.sum(request(0, 30 * LONG)).await });
    // The long call runs when a short call has to wait for longer than the time `usual`.
    let mut short = client.clone();
    while timeout(usual, short.sum(request(1, 1))).await.is_ok() {}
    let begin = Instant::now();
    calls.shutdown().await;
    // The short call that was abandoned may still occupy a place.
    while timeout(PATIENCE, short.sum(request(1, 1))).await.expect("in time").is_err() {}
    let took = begin.elapsed();
    assert!(took < usual * 10, "{took:?}, though a thirtieth of the long call takes {usual:?}");
}

#[test]
fn invalid_arguments_are_refused() {
    for arguments in [
        &["--pending", "0"][..],
        &["--active", "513"],
        &["--grace", "soon"],
        &["--listen", "nowhere"],
        &["x"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tonic-service"));
        let output = output(command.args(arguments)).expect("it runs");
        assert!(
            !output.status.success() && !output.stderr.is_empty() && output.stdout.is_empty(),
            "{output:?}"
        );
    }
}
