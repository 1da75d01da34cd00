//! Rate by the ratio of lost packets (draft section 6).

use dumbbell_queue::Nanos;

use crate::rtp::controllers::Limits;

#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    /// Below this ratio the rate grows, above `high` it is cut.
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) increase: f64,
    /// Share of the loss ratio that a cut takes.
    pub(super) decrease: f64,
    /// Packets that a ratio is told of.
    pub(super) packets: u64,
    /// Between cuts, beside a round trip.
    pub(super) interval: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct LossControl {
    constants: Constants,
    limits: Limits,
    /// As.
    rate: f64,
    packets: u64,
    lost: u64,
    ratio: f64,
    cut: Option<Nanos>,
}

impl LossControl {
    /// It bounds nothing before the first cut.
    pub(super) fn new(constants: Constants, limits: Limits) -> Self {
        Self { constants, limits, rate: limits.most, packets: 0, lost: 0, ratio: 0.0, cut: None }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// So many packets of which so many are lost; `in_use` is the rate that they were sent at.
    pub(super) fn update(&mut self, now: Nanos, packets: u64, lost: u64, in_use: f64, rtt: Nanos) {
        self.packets += packets;
        self.lost += lost;
        if self.packets < self.constants.packets {
            return;
        }
        let ratio = self.lost as f64 / self.packets as f64;
        (self.packets, self.lost, self.ratio) = (0, 0, ratio);
        if ratio < self.constants.low {
            self.rate = self.limits.clip(self.rate * self.constants.increase);
        } else if ratio > self.constants.high {
            let pause = self.constants.interval.saturating_add(rtt);
            if self.cut.is_none_or(|cut| now.saturating_sub(cut) >= pause) {
                let rate = self.rate.min(in_use) * (1.0 - self.constants.decrease * ratio);
                self.rate = self.limits.clip(rate);
                self.cut = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> LossControl {
        let constants = Constants {
            low: 0.02,
            high: 0.1,
            increase: 1.05,
            decrease: 0.5,
            packets: 20,
            interval: 300_000_000,
        };
        let mut control = LossControl::new(constants, Limits { least: 100e3, most: 10e6 });
        control.rate = 1e6;
        control
    }

    /// Section 6: p < 2 %: 1.05 A; 2 % to 10 %: A; p > 10 %: A (1 - 0.5 p).
    #[test]
    fn growth_rest_and_cut_by_the_ratio() {
        for (lost, rate) in
            [(0, 1.05e6), (1, 1.05e6), (2, 1e6), (10, 1e6), (11, 0.945e6), (50, 0.75e6)]
        {
            let mut control = control();
            control.update(0, 100, lost, 1e6, 0);
            assert!((control.rate() - rate).abs() < 1e-3, "{lost} %: {}", control.rate());
        }
    }

    #[test]
    fn a_cut_starts_from_the_rate_in_use_and_waits_for_the_next() {
        let mut control = control();
        control.update(0, 20, 8, 500e3, 100_000_000);
        assert!((control.rate() - 400e3).abs() < 1e-6);
        control.update(399_000_000, 20, 8, 400e3, 100_000_000);
        assert!((control.rate() - 400e3).abs() < 1e-6);
        control.update(400_000_000, 20, 8, 400e3, 100_000_000);
        assert!((control.rate() - 320e3).abs() < 1e-6);
    }

    #[test]
    fn a_few_packets_tell_no_ratio() {
        let mut control = control();
        control.update(0, 4, 2, 1e6, 0);
        assert_eq!(control.rate(), 1e6);
        control.update(0, 16, 0, 1e6, 0);
        assert_eq!(control.ratio(), 0.1);
    }
}
