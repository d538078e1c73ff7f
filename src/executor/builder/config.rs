//! The settings of an executor in a configuration.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::policy::cpu_set::CpuSet;
use crate::policy::detection::Detection;
use crate::policy::idle_set::IdleLimits;
use crate::policy::pods::AffinityScope;

use super::ExecutorBuilder;
use super::self_management::SelfManagement;

/// The settings that a configuration can have. Each setting has the name of its setter. The topology and all hooks,
/// including those of `carry`, are set in code.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    cpus: Option<CpuSet>,
    default_scope: AffinityScope,
    nice: Option<i32>,
    high_priority_nice: i32,
    idle_timeout: Duration,
    idle_ratio: NonZeroUsize,
    min_idle: usize,
    prestart: bool,
    max_threads: Option<usize>,
    max_pending: Option<usize>,
    max_pending_bytes: Option<u64>,
    thread_name_prefix: String,
    stack_size: Option<usize>,
    power_efficient: bool,
    histograms: bool,
    detection: Detection,
    hog_threshold: Option<Duration>,
    watchdog_threshold: Option<Duration>,
}

impl Config {
    /// Returns the settings of a builder. The pattern names each field of the builder, so that no setting is
    /// forgotten.
    fn of(builder: &ExecutorBuilder) -> Self {
        let ExecutorBuilder {
            cpus,
            topology: _,
            default_scope,
            nice_normal,
            nice_high,
            idle_limits: IdleLimits { idle_timeout, idle_ratio, min_idle },
            prestart,
            max_threads,
            max_pending,
            max_pending_bytes,
            name_prefix,
            stack_size,
            power_efficient,
            histograms,
            progress_check: _,
            random_placement: _,
            self_management: SelfManagement { detection, probe: _, hog_threshold, watchdog_threshold },
            hooks: _,
        } = builder;
        Self {
            cpus: cpus.clone(),
            default_scope: *default_scope,
            nice: *nice_normal,
            high_priority_nice: *nice_high,
            idle_timeout: *idle_timeout,
            idle_ratio: NonZeroUsize::new(*idle_ratio).expect("the setter takes a non-zero ratio"),
            min_idle: *min_idle,
            prestart: *prestart,
            max_threads: *max_threads,
            max_pending: *max_pending,
            max_pending_bytes: *max_pending_bytes,
            thread_name_prefix: name_prefix.clone(),
            stack_size: *stack_size,
            power_efficient: *power_efficient,
            histograms: *histograms,
            detection: *detection,
            hog_threshold: *hog_threshold,
            watchdog_threshold: *watchdog_threshold,
        }
    }

    fn apply(self, mut builder: ExecutorBuilder) -> ExecutorBuilder {
        builder.cpus = self.cpus;
        builder.nice_normal = self.nice;
        builder.max_threads = self.max_threads;
        builder.max_pending = self.max_pending;
        builder.max_pending_bytes = self.max_pending_bytes;
        builder.stack_size = self.stack_size;
        builder.power_efficient = self.power_efficient;
        builder
            .default_scope(self.default_scope)
            .high_priority_nice(self.high_priority_nice)
            .idle_timeout(self.idle_timeout)
            .idle_ratio(self.idle_ratio)
            .min_idle(self.min_idle)
            .prestart(self.prestart)
            .thread_name_prefix(self.thread_name_prefix)
            .histograms(self.histograms)
            .detection(self.detection)
            .hog_threshold(self.hog_threshold)
            .watchdog_threshold(self.watchdog_threshold)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::of(&ExecutorBuilder::new())
    }
}

/// The serialised form leaves out the topology and the hooks.
impl Serialize for ExecutorBuilder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Config::of(self).serialize(serializer)
    }
}

/// A setting that is missing in the configuration has its default value.
impl<'de> Deserialize<'de> for ExecutorBuilder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Config::deserialize(deserializer).map(|config| config.apply(Self::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ExecutorBuilderExt as _;

    /// spec: E2.11: a configuration sets what the setters set, and a name that is no setting is an error.
    #[test]
    fn a_configuration_is_as_good_as_setters() {
        let builder = ExecutorBuilder::new()
            .cpus("0-1".parse().unwrap())
            .default_scope(AffinityScope::Numa)
            .nice(3)
            .high_priority_nice(-1)
            .idle_timeout(Duration::from_secs(7))
            .idle_ratio(NonZeroUsize::new(9).unwrap())
            .min_idle(5)
            .prestart(true)
            .max_threads(64)
            .max_pending(1000)
            .max_pending_bytes(1 << 30)
            .thread_name_prefix("app")
            .stack_size(256 << 10)
            .power_efficient(true)
            .histograms(true)
            .detection(Detection::Off)
            .hog_threshold(None)
            .watchdog_threshold(Duration::from_secs(60));
        let text = serde_json::to_string(&builder).unwrap();
        let again: ExecutorBuilder = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert_ne!(serde_json::to_string(&ExecutorBuilder::new()).unwrap(), text);

        let one: ExecutorBuilder = serde_json::from_str(r#"{ "max_threads": 64 }"#).unwrap();
        let set = ExecutorBuilder::new().max_threads(64);
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&set).unwrap());
        let error = serde_json::from_str::<ExecutorBuilder>(r#"{ "threads": 64 }"#).unwrap_err().to_string();
        assert!(error.contains("threads") && error.contains("max_threads"), "{error}");
        let error =
            serde_json::from_str::<ExecutorBuilder>(r#"{ "stack_size": 1 }"#).unwrap().build().unwrap_err();
        assert!(error.to_string().contains('1'), "the value is checked by `build`: {error}");
    }

    /// spec: E2.11: `null` turns a threshold off, and any other setting that may be unset has its default.
    #[test]
    fn null_turns_a_threshold_off_or_means_the_default() {
        let text_of = |builder: &ExecutorBuilder| serde_json::to_string(builder).unwrap();
        let read = |text: &str| serde_json::from_str::<ExecutorBuilder>(text).unwrap();
        let thresholds_off = ExecutorBuilder::new().hog_threshold(None).watchdog_threshold(None);
        let text = r#"{ "hog_threshold": null, "watchdog_threshold": null }"#;
        assert_eq!(text_of(&read(text)), text_of(&thresholds_off));
        let default = text_of(&ExecutorBuilder::new());
        for setting in ["cpus", "nice", "max_threads", "max_pending", "max_pending_bytes", "stack_size"] {
            assert_eq!(text_of(&read(&format!(r#"{{ "{setting}": null }}"#))), default, "{setting}");
        }
    }
}
