//! The keys in Redis, and the commands that change them.
//!
//! | key | content |
//! |---|---|
//! | `{NAME}:jobs` | a stream of the jobs that are not acknowledged, with a consumer group |
//! | `{NAME}:results` | a stream of the results, one for each name |
//! | `{NAME}:names` | the set of the names that have results |
//! | `{NAME}:dead` | a stream of the jobs that were set aside |
//!
//! The braces make a Redis cluster keep all keys on one server, as scripts require. Redis 6.2 or newer is needed.
//!
//! The names stay for ever, because the second submission of a job may come at any time. A real service would store its
//! results in a database under a unique key and would need no set of names, or it would let the names expire.

use std::fmt::Write;
use std::time::Duration;

use redis::{Connection, RedisResult, cmd};

use crate::job::Fields;
use crate::store::Finished;

/// The time for which Redis waits for a job before it answers that there is no job. The end of a consumer can be late
/// by this time.
pub(crate) const BLOCK: Duration = Duration::from_secs(1);

const GROUP: &str = "consumers";

/// Stores each result unless its name already has a result, and acknowledges its job in the same step.
///
/// KEYS: jobs, results, names. ARGV: the group, and then the entry, name and result of each job.
const STORE: &str = "
for i = 2, #ARGV, 3 do
    if redis.call('SADD', KEYS[3], ARGV[i + 1]) == 1 then
        redis.call('XADD', KEYS[2], '*', 'name', ARGV[i + 1], 'result', ARGV[i + 2])
    end
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
    redis.call('XDEL', KEYS[1], ARGV[i])
end";

/// Moves jobs to another stream, except jobs that another consumer has taken over before. Returns the number of moved
/// jobs.
///
/// KEYS: jobs, dead. ARGV: the group, the consumer, the idle time in milliseconds, and the entries.
const SET_ASIDE: &str = "
local moved = 0
for i = 4, #ARGV do
    local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[i])
    for _, entry in ipairs(claimed) do
        redis.call('XADD', KEYS[2], '*', 'entry', entry[1], unpack(entry[2]))
        redis.call('XACK', KEYS[1], ARGV[1], entry[1])
        redis.call('XDEL', KEYS[1], entry[1])
        moved = moved + 1
    end
end
return moved";

/// Removes this consumer from the group, and the consumers that were silent for long. A consumer with jobs is not
/// removed, because its jobs would be lost.
///
/// KEYS: jobs. ARGV: the group, the consumer, the idle time in milliseconds.
const LEAVE: &str = "
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local name, jobs, idle = consumer[2], consumer[4], consumer[6]
    if jobs == 0 and (name == ARGV[2] or idle > tonumber(ARGV[3])) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], name)
    end
end";

#[derive(Clone)]
pub(crate) struct Stream {
    jobs: String,
    results: String,
    names: String,
    dead: String,
}

/// An entry of the stream: a job that was fetched.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) fields: Fields,
}

/// A job whose consumer has been silent.
pub(crate) struct Abandoned {
    pub(crate) id: String,
    pub(crate) consumer: String,
    /// The number of times that the job was given to a consumer.
    pub(crate) deliveries: u64,
}

/// Entries as Redis sends them. An entry that was deleted may have no fields.
type Entries = Vec<(String, Option<Fields>)>;

impl Stream {
    pub(crate) fn new(name: &str) -> Self {
        let key = |what: &str| format!("{{{name}}}:{what}");
        Self { jobs: key("jobs"), results: key("results"), names: key("names"), dead: key("dead") }
    }

    /// Makes the group of consumers, and the stream, unless they exist.
    pub(crate) fn make_group(&self, redis: &mut Connection) -> RedisResult<()> {
        let made =
            cmd("XGROUP").arg("CREATE").arg(&self.jobs).arg(GROUP).arg("0").arg("MKSTREAM").exec(redis);
        made.or_else(|error| if error.code() == Some("BUSYGROUP") { Ok(()) } else { Err(error) })
    }

    pub(crate) fn add(
        &self,
        redis: &mut Connection,
        names: &[String],
        rounds: u64,
        pause: Duration,
    ) -> RedisResult<()> {
        let mut adds = redis::pipe();
        for name in names {
            adds.cmd("XADD").arg(&self.jobs).arg("*").arg("name").arg(name).ignore();
            adds.arg("rounds").arg(rounds).arg("pause").arg(millis(pause));
        }
        adds.exec(redis)
    }

    /// Fetches at most `count` jobs. Waits for [`BLOCK`] if there are none.
    pub(crate) fn fetch(
        &self,
        redis: &mut Connection,
        consumer: &str,
        count: usize,
    ) -> RedisResult<Vec<Entry>> {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(consumer).arg("COUNT").arg(count);
        read.arg("BLOCK").arg(millis(BLOCK)).arg("STREAMS").arg(&self.jobs).arg(">");
        let answer: Option<Vec<(String, Entries)>> = read.query(redis)?;
        Ok(answer.into_iter().flatten().flat_map(|(_, entries)| whole(entries)).collect())
    }

    /// Returns at most `count` jobs of consumers that have been silent for `claim`.
    pub(crate) fn abandoned(
        &self,
        redis: &mut Connection,
        claim: Duration,
        count: usize,
    ) -> RedisResult<Vec<Abandoned>> {
        let mut pending = cmd("XPENDING");
        pending.arg(&self.jobs).arg(GROUP).arg("IDLE").arg(millis(claim)).arg("-").arg("+").arg(count);
        let answer: Vec<(String, String, u64, u64)> = pending.query(redis)?;
        let abandoned = |(id, consumer, _, deliveries)| Abandoned { id, consumer, deliveries };
        Ok(answer.into_iter().map(abandoned).collect())
    }

    /// Takes these jobs over, except jobs that another consumer has taken over before.
    pub(crate) fn take_over(
        &self,
        redis: &mut Connection,
        consumer: &str,
        claim: Duration,
        ids: &[String],
    ) -> RedisResult<Vec<Entry>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut claims = cmd("XCLAIM");
        claims.arg(&self.jobs).arg(GROUP).arg(consumer).arg(millis(claim)).arg(ids);
        Ok(whole(claims.query(redis)?))
    }

    /// Moves these jobs to the stream of dead jobs. Returns the number of moved jobs.
    pub(crate) fn set_aside(
        &self,
        redis: &mut Connection,
        consumer: &str,
        claim: Duration,
        ids: &[String],
    ) -> RedisResult<usize> {
        let mut script = cmd("EVAL");
        script.arg(SET_ASIDE).arg(2).arg(&self.jobs).arg(&self.dead);
        script.arg(GROUP).arg(consumer).arg(millis(claim)).arg(ids).query(redis)
    }

    /// Tells Redis that the consumer still has these jobs, so that no other consumer takes them over. Redis does not
    /// count this as a delivery. It ignores jobs that are acknowledged already.
    pub(crate) fn keep(&self, redis: &mut Connection, consumer: &str, ids: &[String]) -> RedisResult<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut claim = cmd("XCLAIM");
        claim.arg(&self.jobs).arg(GROUP).arg(consumer).arg(0).arg(ids).arg("JUSTID").exec(redis)
    }

    /// Permits other consumers to take over all jobs of this consumer immediately, and returns the number of jobs. The
    /// delivery to this consumer does not count as an attempt, because the jobs have not failed.
    pub(crate) fn give_back(
        &self,
        redis: &mut Connection,
        consumer: &str,
        claim: Duration,
    ) -> RedisResult<usize> {
        /// The greatest number of jobs in the request. No consumer has so many jobs.
        const ALL: usize = 100_000;
        let mut pending = cmd("XPENDING");
        pending.arg(&self.jobs).arg(GROUP).arg("-").arg("+").arg(ALL).arg(consumer);
        let own: Vec<(String, String, u64, u64)> = pending.query(redis)?;
        if own.is_empty() {
            return Ok(0);
        }
        let mut claims = redis::pipe();
        for (id, _, _, deliveries) in &own {
            claims.cmd("XCLAIM").arg(&self.jobs).arg(GROUP).arg(consumer).arg(0).arg(id).ignore();
            claims.arg("IDLE").arg(millis(claim));
            claims.arg("RETRYCOUNT").arg(deliveries.saturating_sub(1)).arg("JUSTID");
        }
        claims.exec(redis)?;
        Ok(own.len())
    }

    /// Stores results and acknowledges their jobs, in one step. A repetition changes nothing.
    pub(crate) fn store(&self, redis: &mut Connection, batch: &[Finished]) -> RedisResult<()> {
        let mut script = cmd("EVAL");
        script.arg(STORE).arg(3).arg(&self.jobs).arg(&self.results).arg(&self.names).arg(GROUP);
        for job in batch {
            script.arg(&job.held.id).arg(&job.name).arg(&job.result);
        }
        script.exec(redis)
    }

    /// Removes this consumer from the group, and the other consumers that were silent for `silence`. Consumers with
    /// jobs are not removed.
    pub(crate) fn leave(&self, redis: &mut Connection, consumer: &str, silence: Duration) -> RedisResult<()> {
        let mut script = cmd("EVAL");
        script.arg(LEAVE).arg(1).arg(&self.jobs).arg(GROUP).arg(consumer).arg(millis(silence)).exec(redis)
    }

    /// Returns the numbers of jobs, as text.
    pub(crate) fn status(&self, redis: &mut Connection) -> RedisResult<String> {
        let mut lengths = redis::pipe();
        lengths.cmd("XLEN").arg(&self.jobs).cmd("XLEN").arg(&self.results).cmd("XLEN").arg(&self.dead);
        lengths.cmd("XPENDING").arg(&self.jobs).arg(GROUP);
        type Pending = (u64, Option<String>, Option<String>, Option<Vec<(String, String)>>);
        let (jobs, results, dead, (pending, _, _, consumers)): (u64, u64, u64, Pending) =
            lengths.query(redis)?;
        // The stream contains no acknowledged jobs, because they are deleted.
        let waiting = jobs.saturating_sub(pending);
        let mut text = format!("waiting {waiting}, in hand {pending}, stored {results}, set aside {dead}\n");
        for (consumer, jobs) in consumers.into_iter().flatten() {
            let _cannot_fail = writeln!(text, "{consumer}: in hand {jobs}");
        }
        Ok(text)
    }
}

fn whole(entries: Entries) -> Vec<Entry> {
    let whole = |(id, fields): (String, Option<Fields>)| Some(Entry { id, fields: fields? });
    entries.into_iter().filter_map(whole).collect()
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
