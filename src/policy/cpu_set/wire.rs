//! A set is serialised as the text of its CPU list, such as `"0-3,8"`.

#![forbid(unsafe_code)]

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CpuSet;

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
