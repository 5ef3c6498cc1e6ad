//! How many kernels share a command buffer.

/// In throughput mode, so many kernels share one: enough for the cost of a commit to
/// vanish, few enough for the device to begin early.
const SHARED: u32 = 64;

/// Decides when a command buffer is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    /// Latency or throughput; `None` asks the setting each time.
    latency: Option<bool>,
    kernels: u32,
}

impl Sharing {
    /// In latency mode, in throughput mode, or as the setting has it.
    pub(crate) fn new(latency: Option<bool>) -> Self {
        Self { latency, kernels: 0 }
    }

    /// A kernel was encoded: whether its command buffer is to be committed now.
    pub(crate) fn is_full_after_one(&mut self, setting: bool) -> bool {
        self.kernels += 1;
        self.latency.unwrap_or(setting) || self.kernels >= SHARED
    }

    /// The next kernel is in a new command buffer.
    pub(crate) fn begin_anew(&mut self) {
        self.kernels = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_latency_mode_every_kernel_has_a_command_buffer() {
        let mut sharing = Sharing::new(None);
        for _ in 0..3 {
            assert!(sharing.is_full_after_one(true));
            sharing.begin_anew();
        }
    }

    #[test]
    fn in_throughput_mode_sixty_four_share_one() {
        let mut sharing = Sharing::new(None);
        for _ in 0..2 {
            let full = (1..=64).find(|_| sharing.is_full_after_one(false));
            assert_eq!(full, Some(64));
            sharing.begin_anew();
        }
    }

    #[test]
    fn the_caller_may_choose_without_regard_to_the_setting() {
        assert!(Sharing::new(Some(true)).is_full_after_one(false));
        assert!(!Sharing::new(Some(false)).is_full_after_one(true));
    }

    #[test]
    fn a_setting_that_changes_counts_from_the_next_kernel() {
        let mut sharing = Sharing::new(None);
        assert!(!sharing.is_full_after_one(false));
        assert!(sharing.is_full_after_one(true));
    }
}
