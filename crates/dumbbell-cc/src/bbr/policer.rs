//! Policer detection (Linux's "long-term bandwidth"): two successive intervals of heavy loss with
//! much the same delivery rate look like a token bucket; hold that rate for a while instead of
//! running into it again and again.

use super::settings::Settings;
use crate::event::Nanos;

/// Shortest interval that gives a rate.
const MIN_INTERVAL: Nanos = 1_000_000;

/// What the detector sees of an ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Nanos,
    /// Bytes over the life of the connection.
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// This ACK marked something lost.
    pub(super) loss: bool,
    pub(super) app_limited: bool,
    pub(super) round_start: bool,
    pub(super) probe_bw: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    None,
    /// A policer's rate was found.
    Adopt,
    /// Probe again.
    Release,
}

#[derive(Clone, Debug)]
pub(super) struct Policer {
    enabled: bool,
    min_rounds: u64,
    loss_threshold: f64,
    ratio: f64,
    difference: f64,
    hold_rounds: u64,
    sampling: bool,
    /// Rate of the interval before, bytes per second; 0: none.
    rate: f64,
    in_use: bool,
    rounds: u64,
    start: Nanos,
    start_delivered: u64,
    start_lost: u64,
    last_lost: u64,
}

impl Policer {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            enabled: settings.policer,
            min_rounds: settings.policer_min_rounds,
            loss_threshold: settings.policer_loss,
            ratio: settings.policer_ratio,
            difference: settings.policer_difference,
            hold_rounds: settings.policer_rounds,
            sampling: false,
            rate: 0.0,
            in_use: false,
            rounds: 0,
            start: 0,
            start_delivered: 0,
            start_lost: 0,
            last_lost: 0,
        }
    }

    /// The policer's rate while it is held, bytes per second.
    pub(super) fn bw(&self) -> Option<f64> {
        self.in_use.then_some(self.rate)
    }

    /// Bytes lost over the connection's life, as of the last sample.
    pub(super) fn last_lost(&self) -> u64 {
        self.last_lost
    }

    pub(super) fn reset(&mut self) {
        self.rate = 0.0;
        self.in_use = false;
        self.sampling = false;
        self.rounds = 0;
    }

    fn begin_interval(&mut self, sample: &Sample) {
        self.start = sample.now;
        self.start_delivered = sample.delivered;
        self.start_lost = sample.lost;
        self.rounds = 0;
    }

    pub(super) fn sample(&mut self, sample: &Sample) -> Verdict {
        self.last_lost = sample.lost;
        if !self.enabled {
            return Verdict::None;
        }
        if self.in_use {
            return self.hold(sample);
        }
        if !self.sampling {
            if !sample.loss {
                return Verdict::None;
            }
            self.begin_interval(sample);
            self.sampling = true;
        }
        if sample.app_limited {
            self.reset();
            return Verdict::None;
        }
        if sample.round_start {
            self.rounds += 1;
        }
        if self.rounds < self.min_rounds {
            return Verdict::None;
        }
        if self.rounds > 4 * self.min_rounds {
            self.reset();
            return Verdict::None;
        }
        // The interval ends with a loss, so that the rate is that of an emptied bucket.
        if !sample.loss {
            return Verdict::None;
        }
        let lost = sample.lost.saturating_sub(self.start_lost);
        let delivered = sample.delivered.saturating_sub(self.start_delivered);
        let interval = sample.now.saturating_sub(self.start);
        if delivered == 0
            || (lost as f64) < self.loss_threshold * delivered as f64
            || interval < MIN_INTERVAL
        {
            return Verdict::None;
        }
        self.interval_done(sample, delivered as f64 * 1e9 / interval as f64)
    }

    fn hold(&mut self, sample: &Sample) -> Verdict {
        if sample.probe_bw && sample.round_start {
            self.rounds += 1;
            if self.rounds >= self.hold_rounds {
                self.reset();
                return Verdict::Release;
            }
        }
        Verdict::None
    }

    fn interval_done(&mut self, sample: &Sample, rate: f64) -> Verdict {
        if self.rate > 0.0 {
            let difference = (rate - self.rate).abs();
            if difference <= self.ratio * self.rate || difference <= self.difference {
                self.rate = f64::midpoint(rate, self.rate);
                self.in_use = true;
                self.rounds = 0;
                return Verdict::Adopt;
            }
        }
        self.rate = rate;
        self.begin_interval(sample);
        Verdict::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    const ROUND: Nanos = 40_000_000;

    fn policer() -> Policer {
        let infos = super::super::info().params;
        let params = Params::check("bbr", &infos, &serde_json::Map::new()).unwrap();
        Policer::new(&Settings::new(&params))
    }

    /// One sample per round with `delivered` and `lost` bytes in each; the verdicts in order.
    fn run(policer: &mut Policer, rounds: u64, delivered: u64, lost: u64) -> Vec<Verdict> {
        (0..rounds)
            .map(|n| {
                policer.sample(&Sample {
                    now: n * ROUND,
                    delivered: n * delivered,
                    lost: n * lost,
                    loss: lost > 0,
                    app_limited: false,
                    round_start: true,
                    probe_bw: true,
                })
            })
            .collect()
    }

    /// 30 % loss at 1 MB/s: adopted after two intervals of four rounds, held for 48 rounds.
    #[test]
    fn two_intervals_of_steady_loss_are_a_policer() {
        let mut policer = policer();
        let verdicts = run(&mut policer, 60, 40_000, 12_000);
        let adopted = verdicts.iter().position(|v| *v == Verdict::Adopt).unwrap();
        let released = verdicts.iter().position(|v| *v == Verdict::Release).unwrap();
        assert!((6..=9).contains(&adopted), "{adopted}");
        assert_eq!(released - adopted, 48);
    }

    #[test]
    fn the_rate_held_is_what_was_delivered() {
        let mut policer = policer();
        run(&mut policer, 12, 40_000, 12_000);
        assert!((policer.bw().unwrap() - 1e6).abs() < 1.0);
    }

    #[test]
    fn loss_below_a_fifth_is_no_policer() {
        let mut policer = policer();
        assert!(run(&mut policer, 200, 40_000, 7_000).iter().all(|v| *v == Verdict::None));
    }
}
