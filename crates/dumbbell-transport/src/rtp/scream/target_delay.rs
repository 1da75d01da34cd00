//! How much queueing delay is aimed at: more where loss-based flows keep the queue long (section
//! 4.1.2.3).

use std::collections::VecDeque;

use dumbbell_cc::Params;
use dumbbell_queue::Nanos;

use super::seconds;

/// Samples that the variance is taken over, and the average.
const VARIANCE_SAMPLES: usize = 200;
const AVERAGE_SAMPLES: usize = 50;
/// Share of round trips with loss above which the flow is not alone.
const LOSS_RATE: f64 = 0.002;
const LOSS_FACTOR: f64 = 1.5;
/// Variance, in squares of the least target, below which the delay is steady.
const STEADY: f64 = 0.2;
/// Weight of the newest round trip in the loss event rate (reference implementation).
const LOSS_WEIGHT: f64 = 0.01;

#[derive(Clone, Debug)]
pub(super) struct TargetDelay {
    adapts: bool,
    least: f64,
    most: f64,
    target: f64,
    /// Queueing delays over the least target.
    delays: VecDeque<f64>,
    loss_rate: f64,
    lost: bool,
    round: Option<Nanos>,
}

impl TargetDelay {
    pub(super) fn new(params: &Params) -> Self {
        let least = seconds(params.time("target"));
        Self {
            adapts: params.flag("adapt_target"),
            least,
            most: seconds(params.time("target_max")).max(least),
            target: least,
            delays: VecDeque::new(),
            loss_rate: 0.0,
            lost: false,
            round: None,
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.target
    }

    /// Whether other flows have been noticed, by the queue and the losses: the queue alone may be the
    /// flow's own.
    pub(super) fn competing(&self) -> bool {
        self.target > self.least && self.loss_rate > LOSS_RATE
    }

    /// Feedback with or without loss; round trips with loss are counted.
    pub(super) fn count(&mut self, now: Nanos, srtt: Nanos, lost: bool) {
        self.lost |= lost;
        if now.saturating_sub(*self.round.get_or_insert(now)) >= srtt {
            let sample = f64::from(u8::from(self.lost));
            self.loss_rate += LOSS_WEIGHT * (sample - self.loss_rate);
            (self.lost, self.round) = (false, Some(now));
        }
    }

    /// A sample of queueing delay.
    pub(super) fn update(&mut self, queueing: f64) {
        if !self.adapts {
            return;
        }
        self.delays.push_back(queueing / self.least);
        if self.delays.len() > VARIANCE_SAMPLES {
            self.delays.pop_front();
        }
        let mean_of = |count: usize| {
            let count = count.min(self.delays.len());
            self.delays.iter().rev().take(count).sum::<f64>() / count as f64
        };
        let mean = mean_of(VARIANCE_SAMPLES);
        let variance =
            self.delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / self.delays.len() as f64;
        let wanted = (mean_of(AVERAGE_SAMPLES) + variance.sqrt()) * self.least;
        let target = if self.loss_rate > LOSS_RATE {
            LOSS_FACTOR * wanted
        } else if variance < STEADY {
            wanted
        } else if wanted < self.least {
            (0.5 * self.target).max(wanted)
        } else {
            0.9 * self.target
        };
        self.target = target.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use dumbbell_cc::Params;
    use serde_json::json;

    use super::*;

    fn target(adapts: bool) -> TargetDelay {
        let given = json!({"adapt_target": adapts});
        let infos = super::super::info().params;
        TargetDelay::new(&Params::check("scream", &infos, given.as_object().unwrap()).unwrap())
    }

    /// A steady queue of 0.2 s has no variance: it becomes the target; with losses 1.5 times of it,
    /// and never more than 0.4 s.
    #[test]
    fn a_steady_long_queue_is_aimed_at() {
        let mut steady = target(true);
        steady.update(0.2);
        assert!((steady.seconds() - 0.2).abs() < 1e-12);

        let mut lossy = target(true);
        for round in 0..2 {
            lossy.count(round * 100, 100, true);
        }
        lossy.update(0.2);
        assert!((lossy.seconds() - 0.3).abs() < 1e-12);
        assert_eq!((steady.competing(), lossy.competing()), (false, true));
        for _ in 0..200 {
            lossy.update(0.35);
        }
        assert_eq!(lossy.seconds(), 0.4);
    }

    /// Delays of 0 and 0.2 s in turn have a variance of 1: the target falls by a tenth each time.
    #[test]
    fn an_unsteady_queue_lowers_the_target() {
        let mut target = target(true);
        target.update(0.4);
        assert_eq!(target.seconds(), 0.4);
        for _ in 0..100 {
            target.update(0.0);
            target.update(0.2);
        }
        assert_eq!(target.seconds(), 0.1);
    }

    #[test]
    fn the_target_stays_where_adaptation_is_off() {
        let mut target = target(false);
        target.update(0.3);
        assert_eq!(target.seconds(), 0.1);
    }
}
