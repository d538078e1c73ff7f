//! A connection to Redis that is made again after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Client, Connection, RedisError, RedisResult, RetryMethod};

use crate::ending::{Ending, Step};
use crate::stream::{BLOCK, Stream};

/// A server that is silent for this long has failed. Answers may also take the time `BLOCK` for which Redis waits for a
/// job.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first and the longest pause between attempts. Each pause is twice as long as the pause before it, up to the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct Link {
    client: Client,
    stream: Stream,
    ending: Arc<Ending>,
    /// The operation that is impossible while Redis is away, such as `fetch jobs`. Messages name it.
    purpose: &'static str,
    /// From this step on, a request that fails is not tried again.
    last: Step,
    connection: Option<Connection>,
    has_worked: bool,
}

impl Link {
    pub(crate) fn new(client: Client, stream: Stream, ending: Arc<Ending>) -> Self {
        let (purpose, last) = ("reach Redis", Step::Asked);
        Self { client, stream, ending, purpose, last, connection: None, has_worked: false }
    }

    /// Returns another link to the same Redis, which is used for this purpose.
    pub(crate) fn to(&self, purpose: &'static str) -> Self {
        Self { purpose, ..Self::new(self.client.clone(), self.stream.clone(), Arc::clone(&self.ending)) }
    }

    /// Makes the link repeat failed requests until this step.
    pub(crate) fn until(mut self, last: Step) -> Self {
        self.last = last;
        self
    }

    pub(crate) fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Sends a request under a guard, and repeats it until it succeeds. The request must have the same effect if it is
    /// repeated, because Redis may have executed a request whose answer was lost. Returns an error only in two cases.
    /// One case is the end of the process. In the other case, the link has never worked and cannot work without a
    /// change, for example because of a wrong password.
    pub(crate) fn call<T>(
        &mut self,
        request: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, RedisError> {
        let (mut pause, begin) = (FIRST_PAUSE, Instant::now());
        cmwq::blocking(|| {
            loop {
                let error = match self.attempt(&request) {
                    Ok(answer) => {
                        if pause != FIRST_PAUSE {
                            eprintln!("fleet: Redis is back after {:.1?}", begin.elapsed());
                        }
                        self.has_worked = true;
                        return Ok(answer);
                    }
                    Err(error) => error,
                };
                let is_hopeless = !self.has_worked && !may_pass(&error);
                if is_hopeless || self.ending.has_come(self.last) {
                    return Err(error);
                }
                eprintln!("fleet: cannot {}: {error}; trying again in {pause:?}", self.purpose);
                self.ending.sleep(pause, self.last);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        })
    }

    /// Sends a request once, on a new connection if the link has no connection.
    pub(crate) fn attempt<T>(
        &mut self,
        request: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let answer = request(&mut connection)?;
        // An error drops the connection, because the next answer on it might belong to an earlier request. The next
        // connection also makes the group of consumers again if Redis has lost its data.
        self.connection = Some(connection);
        Ok(answer)
    }

    fn connect(&self) -> RedisResult<Connection> {
        let mut connection = self.client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(BLOCK + PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        self.stream.make_group(&mut connection)?;
        Ok(connection)
    }
}

/// Returns whether the request may succeed later, without a change of the program or of its settings.
fn may_pass(error: &RedisError) -> bool {
    !matches!(error.retry_method(), RetryMethod::NoRetry)
        && !matches!(error.kind(), redis::ErrorKind::AuthenticationFailed)
}
