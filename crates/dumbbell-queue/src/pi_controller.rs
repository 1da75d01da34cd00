//! The controller of PI2 (De Schepper et al., CoNEXT 2016) and DualPI2 (RFC 9332): a probability p'
//! that holds the delay at a target, squared for classic traffic and coupled linearly to scalable.
//!
//! Updates that fall due between two packets are made at the next one, with the delays that a timer
//! would have found: nothing but time changes in between.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::Nanos;
use crate::params::{ParamInfo, Unit, Values};
use crate::random::uniform;
use crate::verdict::Verdict;

/// Below two full frames of backlog nothing is marked or dropped (Linux dualpi2).
const FEW_BYTES: u64 = 2 * 1514;
const HOUR: f64 = 3.6e12;

/// Descriptions of the controller's settings: the defaults of Linux, which are those of RFC 9332
/// appendix A.1 for round-trip times up to 100 ms.
pub(crate) fn info() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new("target", Unit::Time, 15_000_000, "Delay aimed at for classic traffic")
            .at_least(1.0)
            .at_most(HOUR),
        ParamInfo::new(
            "tupdate",
            Unit::Time,
            16_000_000,
            "Time between updates of the probability",
        )
        .at_least(100_000.0)
        .at_most(HOUR),
        ParamInfo::new("alpha", Unit::Number, 0.16, "Gain on the delay's distance to target in Hz")
            .at_least(0.0)
            .at_most(1e6),
        ParamInfo::new("beta", Unit::Number, 3.2, "Gain on the change of the delay in Hz")
            .at_least(0.0)
            .at_most(1e6),
        ParamInfo::new(
            "coupling_factor",
            Unit::Number,
            2.0,
            "Marks of scalable traffic over the square root of classic signals (k)",
        )
        .at_least(0.1)
        .at_most(100.0),
        ParamInfo::new(
            "drop_overload",
            Unit::Bool,
            true,
            "From 100 % of marks on drop all traffic alike; else let the buffer overflow",
        ),
    ]
}

/// The probability and its update (RFC 9332 figure 6).
#[derive(Clone, Debug)]
pub(crate) struct PiController {
    /// Seconds.
    target: f64,
    tupdate: Nanos,
    /// Hz.
    alpha: f64,
    beta: f64,
    coupling: f64,
    drop_overload: bool,
    /// p' and its upper bound.
    probability: f64,
    ceiling: f64,
    /// Delay at the last update in seconds.
    delay: f64,
    next_update: Nanos,
    random: Pcg32,
}

fn seconds(time: Nanos) -> f64 {
    time as f64 / 1e9
}

impl PiController {
    pub(crate) fn from_values(values: &Values, seed: u64) -> Self {
        let coupling = values.number("coupling_factor");
        let drop_overload = values.flag("drop_overload");
        Self {
            target: seconds(values.whole("target")),
            tupdate: values.whole("tupdate"),
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            coupling,
            drop_overload,
            probability: 0.0,
            // Without drops windows stay in proportion only while no more than all is marked.
            ceiling: if drop_overload { 1.0 } else { (1.0 / coupling).min(1.0) },
            delay: 0.0,
            next_update: values.whole("tupdate"),
            random: Pcg32::seed_from_u64(seed),
        }
    }

    /// Probability of a signal to classic traffic.
    pub(crate) fn classic_probability(&self) -> f64 {
        self.probability * self.probability
    }

    /// Probability of a mark of scalable traffic by the coupling.
    pub(crate) fn coupled_probability(&self) -> f64 {
        (self.coupling * self.probability).min(1.0)
    }

    /// Make the updates that fell due by `now`; the packet that waited longest has been there since
    /// `oldest`.
    pub(crate) fn catch_up(&mut self, now: Nanos, oldest: Option<Nanos>) {
        while self.next_update <= now {
            let before = self.probability;
            self.update(oldest.map_or(0.0, |at| seconds(self.next_update.saturating_sub(at))));
            self.next_update += self.tupdate;
            if self.next_update > now {
                return;
            }
            // In a long pause the rest follows at once: an empty queue lowers p' evenly, and at its
            // bound p' stays while the delay grows.
            let due = (now - self.next_update) / self.tupdate + 1;
            let all_due = due * self.tupdate;
            match oldest {
                None => {
                    let fall = due as f64 * self.alpha * self.target;
                    self.probability = (self.probability - fall).max(0.0);
                    self.next_update += all_due;
                }
                Some(at)
                    if before == self.ceiling
                        && self.probability == self.ceiling
                        && self.delay >= self.target =>
                {
                    self.next_update += all_due;
                    self.delay = seconds((self.next_update - self.tupdate).saturating_sub(at));
                }
                Some(_) => {}
            }
        }
    }

    /// The controller itself (RFC 9332 equation 8).
    fn update(&mut self, delay: f64) {
        let change = self.alpha * (delay - self.target) + self.beta * (delay - self.delay);
        self.probability = (self.probability + change).clamp(0.0, self.ceiling);
        self.delay = delay;
    }

    /// Scalable traffic would be marked beyond 100 %: signals are drops now.
    fn overloaded(&self) -> bool {
        self.drop_overload && self.coupling * self.probability >= 1.0
    }

    /// The test of a classic packet with `backlog` bytes queued.
    pub(crate) fn judge_classic(&mut self, backlog: u64) -> Verdict {
        if backlog < FEW_BYTES || uniform(&mut self.random) >= self.classic_probability() {
            Verdict::Pass
        } else if self.overloaded() {
            Verdict::Drop
        } else {
            Verdict::Mark
        }
    }

    /// The test of a scalable packet; `native` is the probability by its own queue.
    pub(crate) fn judge_scalable(&mut self, backlog: u64, native: f64) -> Verdict {
        let coupled = if backlog < FEW_BYTES { 0.0 } else { self.coupled_probability() };
        if coupled > 0.0 && self.overloaded() {
            let drop = uniform(&mut self.random) < self.classic_probability();
            return if drop { Verdict::Drop } else { Verdict::Mark };
        }
        if uniform(&mut self.random) < native.max(coupled) { Verdict::Mark } else { Verdict::Pass }
    }

    /// The controller's variables, for [`crate::QueueDiscipline::record`].
    pub(crate) fn record(&self, out: &mut dyn FnMut(&str, f64)) {
        out("base_probability", self.probability);
        out("classic_probability", self.classic_probability());
        out("coupled_probability", self.coupled_probability());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const BACKLOG: u64 = 100_000;

    fn controller(drop_overload: bool) -> PiController {
        PiController {
            target: 0.015,
            tupdate: 16 * MS,
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            drop_overload,
            probability: 0.0,
            ceiling: if drop_overload { 1.0 } else { 0.5 },
            delay: 0.0,
            next_update: 16 * MS,
            random: Pcg32::seed_from_u64(1),
        }
    }

    /// RFC 9332 equation 8 by hand: from 5 %, with a delay that rose from 20 to 30 ms,
    /// 0.16 * 15 ms + 3.2 * 10 ms = 0.0344 more.
    #[test]
    fn the_controller_steps_as_the_rfc_says() {
        let mut controller = controller(true);
        (controller.probability, controller.delay) = (0.05, 0.020);
        controller.catch_up(16 * MS, Some(0));
        // The head has waited 16 ms: 0.16 * 1 ms - 3.2 * 4 ms.
        assert!((controller.probability - (0.05 + 0.000_16 - 0.0128)).abs() < 1e-12);
        controller.update(0.030);
        assert!((controller.probability - (0.037_36 + 0.0024 + 3.2 * 0.014)).abs() < 1e-12);
        assert_eq!(controller.next_update, 32 * MS);
    }

    /// RFC 9332 section 2.1: p' = 10 % squared is 1 % for classic traffic, and coupled by k = 2 it is
    /// 20 % for scalable traffic.
    #[test]
    fn the_probability_is_squared_and_coupled() {
        let mut controller = controller(true);
        controller.probability = 0.1;
        assert!((controller.classic_probability() - 0.01).abs() < 1e-12);
        assert!((controller.coupled_probability() - 0.2).abs() < 1e-12);
        let draws = 100_000;
        let classic =
            (0..draws).filter(|_| controller.judge_classic(BACKLOG) == Verdict::Mark).count();
        let coupled =
            (0..draws).filter(|_| controller.judge_scalable(BACKLOG, 0.0) == Verdict::Mark).count();
        // Four standard deviations of a binomial.
        assert!((classic as f64 - 1000.0).abs() < 126.0, "{classic}");
        assert!((coupled as f64 - 20_000.0).abs() < 506.0, "{coupled}");
        // The larger of the coupled and the native probability counts.
        assert_eq!(controller.judge_scalable(BACKLOG, 1.0), Verdict::Mark);
        // Nothing happens with less than two frames queued, but for L's own marks.
        controller.probability = 0.49;
        assert!((0..1000).all(|_| controller.judge_classic(3000) == Verdict::Pass));
        assert!((0..1000).all(|_| controller.judge_scalable(3000, 0.0) == Verdict::Pass));
        assert_eq!(controller.judge_scalable(0, 1.0), Verdict::Mark);
    }

    /// RFC 9332 section 4.2.3: at p_CL = 100 %, where p_C is 25 %, classic signals become drops and
    /// scalable traffic is dropped with p_C and else marked. Without drops p' stops there.
    #[test]
    fn overload_drops_all_alike() {
        let mut controller = controller(true);
        controller.probability = 0.5;
        let draws = 100_000;
        let judged: Vec<_> = (0..draws).map(|_| controller.judge_scalable(BACKLOG, 0.0)).collect();
        let drops = judged.iter().filter(|&&v| v == Verdict::Drop).count();
        assert!((drops as f64 - 25_000.0).abs() < 548.0, "{drops}");
        assert!(judged.iter().all(|&v| v != Verdict::Pass));
        assert!((0..draws).all(|_| controller.judge_classic(BACKLOG) != Verdict::Mark));
        let mut controller = self::controller(false);
        controller.catch_up(3600 * 1000 * MS, Some(0));
        assert_eq!(controller.probability, 0.5);
        assert!((0..draws).all(|_| controller.judge_scalable(BACKLOG, 0.0) == Verdict::Mark));
    }

    /// A pause is made up for as if a timer had run all along.
    #[test]
    fn a_pause_equals_the_timer() {
        for oldest in [None, Some(0)] {
            for pause in [100 * MS, 3000 * MS, 20_000 * MS] {
                let mut timer = controller(true);
                (timer.probability, timer.delay) = (0.6, 0.015);
                let mut paused = timer.clone();
                while timer.next_update <= pause {
                    let now = timer.next_update;
                    timer.catch_up(now, oldest);
                }
                paused.catch_up(pause, oldest);
                assert!((paused.probability - timer.probability).abs() < 1e-9);
                assert!((paused.delay - timer.delay).abs() < 1e-9);
                assert_eq!(paused.next_update, timer.next_update);
            }
        }
        let mut idle = controller(true);
        idle.probability = 1.0;
        idle.catch_up(u64::MAX / 2, None);
        assert_eq!(idle.probability, 0.0);
    }
}
