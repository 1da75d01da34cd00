//! Whether the path is used too much, by a threshold that adapts (draft section 5.4).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Over,
    Normal,
    Under,
}

/// Times and thresholds in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub(super) start: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// K_u, per ms.
    pub(super) up: f64,
    /// K_d, per ms.
    pub(super) down: f64,
    /// How far beyond the threshold it no longer follows.
    pub(super) reach: f64,
    pub(super) overuse_time: f64,
}

/// The threshold moves for at most so long at once (libwebrtc; the draft has no bound).
const LONGEST_STEP: f64 = 100.0;

#[derive(Clone, Debug)]
pub(super) struct Detector {
    thresholds: Thresholds,
    threshold: f64,
    updated: Option<f64>,
    /// How long the estimate has been above the threshold.
    over: Option<f64>,
    over_groups: u32,
    previous: f64,
    signal: Signal,
}

impl Detector {
    pub(super) fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            threshold: thresholds.start,
            updated: None,
            over: None,
            over_groups: 0,
            previous: 0.0,
            signal: Signal::Normal,
        }
    }

    pub(super) fn signal(&self) -> Signal {
        self.signal
    }

    pub(super) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// A new estimate at `arrival`, of a group that left `departure` after the one before it.
    pub(super) fn update(&mut self, estimate: f64, departure: f64, arrival: f64) {
        if estimate > self.threshold {
            // Somewhere between the two groups the threshold was passed.
            let over = self.over.map_or(departure / 2.0, |over| over + departure);
            self.over = Some(over);
            self.over_groups += 1;
            if over > self.thresholds.overuse_time
                && self.over_groups > 1
                && estimate >= self.previous
            {
                self.over = Some(0.0);
                self.over_groups = 0;
                self.signal = Signal::Over;
            }
        } else {
            self.over = None;
            self.over_groups = 0;
            self.signal = if estimate < -self.threshold { Signal::Under } else { Signal::Normal };
        }
        self.previous = estimate;
        self.adapt(estimate.abs(), arrival);
    }

    fn adapt(&mut self, size: f64, arrival: f64) {
        let elapsed = arrival - self.updated.unwrap_or(arrival);
        self.updated = Some(arrival);
        if size > self.threshold + self.thresholds.reach {
            return;
        }
        let gain = if size < self.threshold { self.thresholds.down } else { self.thresholds.up };
        let step = elapsed.clamp(0.0, LONGEST_STEP);
        self.threshold = (self.threshold + step * gain * (size - self.threshold))
            .clamp(self.thresholds.least, self.thresholds.most);
    }
}
