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
    /// Queueing delays over the least target; zeros at first (reference implementation).
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
            delays: VecDeque::from([0.0; VARIANCE_SAMPLES]),
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
        self.delays.pop_front();
        self.delays.push_back(queueing / self.least);
        let mean_of =
            |count: usize| self.delays.iter().rev().take(count).sum::<f64>() / count as f64;
        let mean = mean_of(VARIANCE_SAMPLES);
        let deviations = self.delays.iter().map(|delay| (delay - mean).powi(2));
        let variance = deviations.sum::<f64>() / VARIANCE_SAMPLES as f64;
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

    /// A steady queue of 0.2 s has no variance once the zeros of the beginning have gone: it becomes
    /// the target; with losses 1.5 times of it, and never more than 0.4 s.
    #[test]
    fn a_steady_long_queue_is_aimed_at() {
        let mut steady = target(true);
        (0..200).for_each(|_| steady.update(0.2));
        assert!((steady.seconds() - 0.2).abs() < 1e-9);

        let mut lossy = target(true);
        for round in 0..2 {
            lossy.count(round * 100, 100, true);
        }
        (0..200).for_each(|_| lossy.update(0.2));
        assert!((lossy.seconds() - 0.3).abs() < 1e-9);
        assert_eq!((steady.competing(), lossy.competing()), (false, true));
        for _ in 0..200 {
            lossy.update(0.35);
        }
        assert_eq!(lossy.seconds(), 0.4);
    }

    /// What has just begun is not steady: in the reference implementation the history holds zeros at first.
    /// After k delays of 0.2 s, that is 2, the mean of 50 is 2 k/50 and the variance 4 (k/200)(1 - k/200): at
    /// k = 10 that is 0.19, and the target 0.04 + 0.1 sqrt(0.19) = 0.0836 s, which is less than 0.1;
    /// from k = 11 on it is above 0.2, and the target stays at 0.1 s until the zeros have gone.
    #[test]
    fn a_queue_that_has_just_begun_is_not_aimed_at() {
        let mut target = target(true);
        for _ in 0..189 {
            target.update(0.2);
            assert_eq!(target.seconds(), 0.1);
        }
        target.update(0.2);
        assert!((target.seconds() - 0.2 - 0.1 * 0.19_f64.sqrt()).abs() < 1e-9);
    }

    /// Delays of 0 and 0.2 s in turn have a variance of 1: the target falls by a tenth each time.
    #[test]
    fn an_unsteady_queue_lowers_the_target() {
        let mut target = target(true);
        (0..200).for_each(|_| target.update(0.4));
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
