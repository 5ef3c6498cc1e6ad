//! What the driver of an accelerator says in its `PerformanceStatistics`.
//!
//! The dictionary is the driver's own: keys differ by maker and may change with
//! any version of macOS. Those that are known are looked for; one that is missing, or
//! has become a text, costs its field.

/// Figures of a whole device, of all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AcceleratorStatistics {
    /// Of the time, how much it was busy.
    pub(crate) utilization_percent: Option<f64>,
    /// The same of its renderer, which runs compute kernels too.
    pub(crate) renderer_percent: Option<f64>,
    /// The same of its tiler.
    pub(crate) tiler_percent: Option<f64>,
    /// Bytes in use.
    pub(crate) memory_in_use: Option<u64>,
    /// Bytes that the driver has allocated.
    pub(crate) memory_allocated: Option<u64>,
    /// Watts that it draws.
    pub(crate) power_watts: Option<f64>,
    /// Its temperature.
    pub(crate) temperature_celsius: Option<f64>,
    /// How often the driver had to reset it.
    pub(crate) recoveries: Option<u64>,
}

impl AcceleratorStatistics {
    /// Takes in one entry of the dictionary. Unknown ones are passed over.
    pub(crate) fn add(&mut self, key: &str, value: f64) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let percent = Some(value).filter(|&value| value <= 100.0);
        let whole = Some(value as u64);
        match key {
            "Device Utilization %" => self.utilization_percent = percent,
            // Intel's name for it; the other one wins where there are both.
            "GPU Activity(%)" => self.utilization_percent = self.utilization_percent.or(percent),
            "Renderer Utilization %" => self.renderer_percent = percent,
            "Tiler Utilization %" => self.tiler_percent = percent,
            // Apple's; what AMD's devices have of their own goes before.
            "In use system memory" => self.memory_in_use = self.memory_in_use.or(whole),
            "Alloc system memory" => self.memory_allocated = self.memory_allocated.or(whole),
            "inUseVidMemoryBytes" | "vramUsedBytes" => self.memory_in_use = whole,
            "Total Power(W)" => self.power_watts = Some(value),
            "Temperature(C)" => self.temperature_celsius = Some(value),
            "recoveryCount" => self.recoveries = whole,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(entries: &[(&str, f64)]) -> AcceleratorStatistics {
        let mut statistics = AcceleratorStatistics::default();
        entries.iter().for_each(|&(key, value)| statistics.add(key, value));
        statistics
    }

    #[test]
    fn an_apple_gpu_tells_utilisation_and_memory() {
        let statistics = parsed(&[
            ("Alloc system memory", 3_221_225_472.0),
            ("Allocated PB Size", 35_127_296.0),
            ("Device Utilization %", 87.0),
            ("In use system memory", 1_073_741_824.0),
            ("In use system memory (driver)", 0.0),
            ("Renderer Utilization %", 85.0),
            ("SplitSceneCount", 0.0),
            ("TiledSceneBytes", 3_473_408.0),
            ("Tiler Utilization %", 2.0),
            ("recoveryCount", 0.0),
        ]);
        let expected = AcceleratorStatistics {
            utilization_percent: Some(87.0),
            renderer_percent: Some(85.0),
            tiler_percent: Some(2.0),
            memory_in_use: Some(1 << 30),
            memory_allocated: Some(3 << 30),
            recoveries: Some(0),
            ..AcceleratorStatistics::default()
        };
        assert_eq!(statistics, expected);
    }

    #[test]
    fn an_amd_card_tells_its_own_memory_power_and_temperature() {
        let statistics = parsed(&[
            ("Device Utilization %", 12.0),
            ("GPU Activity(%)", 14.0),
            ("In use system memory", 5.0),
            ("Temperature(C)", 61.0),
            ("Total Power(W)", 34.0),
            ("inUseVidMemoryBytes", 2_147_483_648.0),
        ]);
        assert_eq!(statistics.utilization_percent, Some(12.0));
        assert_eq!(statistics.memory_in_use, Some(2 << 30));
        assert_eq!(statistics.power_watts, Some(34.0));
        assert_eq!(statistics.temperature_celsius, Some(61.0));
    }

    #[test]
    fn the_order_of_the_entries_does_not_matter() {
        let mut entries =
            [("GPU Activity(%)", 14.0), ("Device Utilization %", 12.0), ("vramUsedBytes", 9.0)];
        let forwards = parsed(&entries);
        entries.reverse();
        assert_eq!(parsed(&entries), forwards);
        let mut entries = [("In use system memory", 5.0), ("vramUsedBytes", 9.0)];
        let forwards = parsed(&entries);
        entries.reverse();
        assert_eq!(parsed(&entries), forwards);
    }

    #[test]
    fn intels_activity_stands_in_for_utilisation() {
        assert_eq!(parsed(&[("GPU Activity(%)", 3.0)]).utilization_percent, Some(3.0));
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        let nothing = AcceleratorStatistics::default();
        assert_eq!(parsed(&[("Device Utilization %", 101.0)]), nothing);
        assert_eq!(parsed(&[("Device Utilization %", f64::NAN)]), nothing);
        assert_eq!(parsed(&[("In use system memory", -1.0)]), nothing);
        assert_eq!(parsed(&[("A key of next year", 7.0)]), nothing);
    }
}
