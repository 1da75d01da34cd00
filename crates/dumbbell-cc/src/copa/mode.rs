//! Copa's two modes (section 4 of the paper): with flows that fill the buffer the queue never gets
//! nearly empty, and delta then follows AIMD instead of staying at its default.

use crate::event::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) struct ModeSettings {
    pub(super) enabled: bool,
    pub(super) default_delta: f64,
    /// Round trips without a nearly empty queue before the mode changes.
    pub(super) empty_rounds: f64,
    /// Part of the RTT's range below which a queue is nearly empty.
    pub(super) empty_part: f64,
    /// So is one of this many of the flow's own segments.
    pub(super) empty_segments: f64,
}

/// What has been seen of the queue and of loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    settings: ModeSettings,
    last_empty: Nanos,
    pub(super) competitive: bool,
    /// Segments that the flow aims to keep queued; the default's while not competitive.
    inverse_delta: f64,
    lost: bool,
}

impl Mode {
    pub(super) fn new(settings: ModeSettings, now: Nanos) -> Self {
        Self {
            settings,
            last_empty: now,
            competitive: false,
            inverse_delta: 1.0 / settings.default_delta,
            lost: false,
        }
    }

    pub(super) fn delta(&self) -> f64 {
        if self.competitive { 1.0 / self.inverse_delta } else { self.settings.default_delta }
    }

    /// Every ACK: `queueing` is the standing queueing delay, `range` what the RTT has varied by in the
    /// last four round trips, `segment` the time of a segment at the present rate.
    pub(super) fn observe(
        &mut self,
        now: Nanos,
        srtt: Nanos,
        queueing: Nanos,
        range: Nanos,
        segment: f64,
    ) {
        let nearly_empty =
            (self.settings.empty_part * range as f64).max(self.settings.empty_segments * segment);
        if queueing as f64 <= nearly_empty {
            self.last_empty = now;
        }
        let patience = self.settings.empty_rounds * srtt as f64;
        let competitive =
            self.settings.enabled && now.saturating_sub(self.last_empty) as f64 > patience;
        if competitive != self.competitive {
            self.competitive = competitive;
            self.inverse_delta = 1.0 / self.settings.default_delta;
        }
    }

    /// A round trip is over.
    pub(super) fn round(&mut self) {
        if self.competitive && !self.lost {
            self.inverse_delta += 1.0;
        }
        self.lost = false;
    }

    pub(super) fn loss(&mut self) {
        self.lost = true;
        if self.competitive {
            self.inverse_delta = (self.inverse_delta / 2.0).max(1.0 / self.settings.default_delta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn mode() -> Mode {
        let settings = ModeSettings {
            enabled: true,
            default_delta: 0.5,
            empty_rounds: 5.0,
            empty_part: 0.1,
            empty_segments: 1.5,
        };
        Mode::new(settings, 0)
    }

    #[test]
    fn five_round_trips_without_an_empty_queue_change_the_mode() {
        let mut mode = mode();
        mode.observe(200 * MS, 40 * MS, 11 * MS, 100 * MS, 0.0);
        assert!(!mode.competitive);
        mode.observe(200 * MS + 1, 40 * MS, 11 * MS, 100 * MS, 0.0);
        assert!(mode.competitive);
        mode.observe(210 * MS, 40 * MS, 10 * MS, 100 * MS, 0.0);
        assert!(!mode.competitive);
    }

    /// Delayed ACKs put a segment's time on every RTT but the least.
    #[test]
    fn a_segment_of_its_own_leaves_the_queue_nearly_empty() {
        let mut mode = mode();
        mode.observe(300 * MS, 40 * MS, 18 * MS / 10, 4 * MS, 1.2e6);
        assert!(!mode.competitive);
        mode.observe(600 * MS, 40 * MS, 19 * MS / 10, 4 * MS, 1.2e6);
        assert!(mode.competitive);
    }

    /// 1/delta: one more a round trip, half of it after a loss, never below the default's.
    #[test]
    fn delta_follows_aimd() {
        let mut mode = mode();
        mode.loss();
        assert_eq!(mode.delta(), 0.5);
        mode.observe(300 * MS, 40 * MS, 50 * MS, 100 * MS, 0.0);
        mode.round();
        for expected in [3.0, 4.0, 5.0, 6.0] {
            mode.round();
            assert_eq!(1.0 / mode.delta(), expected);
        }
        mode.loss();
        assert_eq!(1.0 / mode.delta(), 3.0);
        mode.round();
        assert_eq!(1.0 / mode.delta(), 3.0, "the round of the loss adds nothing");
        mode.loss();
        assert_eq!(1.0 / mode.delta(), 2.0);
    }
}
