//! What devices are and how they are doing: `analyze counters`, `analyze report`.

use ringscope_format::{Kind, Value};

use crate::{
    metric, metric_kind,
    vocabulary::{Given, Label, Metric, Recorded},
};

metric_kind! {
    /// A device was found: what it is.
    pub struct DeviceFound<'a> = "device.found" {
        /// What it is called.
        device: Label<'a> = "device",
        /// What drives it: `metal`, `cuda`, `wgpu`.
        backend: Label<'a> = "backend",
        /// Its generation, as its maker calls it: `Apple 9`.
        family: Label<'a> = "family",
        /// Whether its memory is the host's.
        unified: bool = "unified",
        /// Bytes of memory that it has, or recommends to stay below.
        total: u64 = "total",
    }
}

metric_kind! {
    /// A device could not do what it was asked for.
    pub struct DeviceError<'a> = "device.error" as error {
        /// What kind of thing failed: `command buffer`, `sample buffer`.
        kind: Label<'a> = "kind",
        /// Why, in its driver's words.
        payload: Label<'a> = "payload",
        /// Which device.
        device: Label<'a> = "device",
    }
}

macro_rules! device_state {
    ($($(#[$doc:meta])* $field:ident : $type:ty = $name:literal),+ $(,)?) => {
        /// How a device is doing now: a gauge for every figure that is given.
        ///
        /// ```
        /// use ringscope::vocabulary::DeviceState;
        ///
        /// DeviceState::new().device("GPU 0").utilization_percent(87.0).power_watts(12.5).record();
        /// ```
        #[derive(Clone, Copy, Debug, Default)]
        #[must_use = "it is recorded with `record`"]
        pub struct DeviceState<'a> {
            device: Option<Label<'a>>,
            $($field: Option<$type>,)+
        }

        impl<'a> DeviceState<'a> {
            /// One that says nothing yet.
            #[inline]
            pub fn new() -> Self {
                Self::default()
            }

            /// Which device; the whole machine if nothing is said.
            #[inline(always)]
            pub fn device(mut self, device: impl Given<Label<'a>>) -> Self {
                self.device = device.given();
                self
            }

            $(
                $(#[$doc])*
                #[inline(always)]
                pub fn $field(mut self, value: impl Given<$type>) -> Self {
                    self.$field = value.given();
                    self
                }
            )+

            /// Records what was given.
            #[inline]
            pub fn record(self) {
                self.record_now();
            }
        }

        impl Metric for DeviceState<'_> {
            fn record_now(&self) {
                $(if let Some(value) = self.$field {
                    static KEYS: [crate::Key; 1] = [crate::Key::new("device")];
                    static SITE: crate::CallSite = crate::CallSite::new($name, "", "", 0, &KEYS);
                    if metric::is_on(&SITE) {
                        let device = [self.device.map(Recorded::recorded)];
                        metric::record_point(&SITE, Kind::GAUGE, number(value), device);
                    }
                })+
            }
        }
    };
}

device_state! {
    /// Of the time, how much it was busy, with the work of all processes.
    utilization_percent: f64 = "device.utilization_percent",
    /// Bytes of memory in use by all processes.
    memory_in_use: u64 = "device.in_use_bytes",
    /// What it draws.
    power_watts: f64 = "device.power_watts",
    /// Its temperature.
    temperature_celsius: f64 = "device.temperature_celsius",
    /// How hot the system finds itself: 0 nominal, 1 fair, 2 serious, 3 critical. From 2
    /// on it slows down.
    thermal_state: u64 = "device.thermal_state",
    /// Whether the system saves power at the cost of speed.
    low_power: bool = "device.low_power",
    /// How often its driver had to reset it.
    resets: u64 = "device.resets",
}

/// A gauge carries its number in the record; a truth is 1 or 0.
fn number<'a>(value: impl Recorded<'a>) -> Value<'a> {
    match value.recorded() {
        Value::Bool(is) => Value::U64(u64::from(is)),
        value => value,
    }
}
