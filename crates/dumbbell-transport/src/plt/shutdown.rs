//! Whether the bottleneck gives the high class priority, found out end to end.
//!
//! A train is some packets of the low class followed at once by as many of the high class. Where there is
//! priority and a queue, the second overtake the first, or are much less delayed; in a common FIFO they
//! do not and are not. Without a queue a train tells nothing. All of this is a reconstruction.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

use super::strong_ack::Class;

/// Most packets of a train in either class.
pub(super) const MAX_TRAIN: usize = 8;
/// Trains that are waited for.
const MAX_WAITING: usize = 16;
/// A train of which packets are missing is judged by what has come after so many round trips.
const PATIENCE: u64 = 4;
const MIN_PATIENCE: Nanos = 400_000_000;
/// Round trips between trains, before the first verdict and afterwards.
const SEARCHING: u64 = 1;
const WATCHING: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    /// Most packets of a train in either class.
    pub(super) train: usize,
    /// Trains that met a queue, for a verdict.
    pub(super) trains: usize,
    /// Share of overtaken pairs, or of the queueing delay that the high class is spared, above which
    /// there is priority.
    pub(super) threshold: f64,
    /// Delay above the least one that shows a queue.
    pub(super) queueing: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unknown,
    Priority,
    NoPriority,
}

impl Verdict {
    pub(super) fn number(self) -> f64 {
        match self {
            Self::Unknown => 0.0,
            Self::Priority => 1.0,
            Self::NoPriority => -1.0,
        }
    }
}

/// Times of arrival of one class's packets of a train.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    count: usize,
    at: [Nanos; MAX_TRAIN],
}

impl Arrivals {
    fn push(&mut self, at: Nanos) {
        if let Some(slot) = self.at.get_mut(self.count) {
            *slot = at;
            self.count += 1;
        }
    }

    fn all(&self) -> &[Nanos] {
        &self.at[..self.count]
    }

    /// Mean one-way delay, by two clocks that need not agree.
    fn delay(&self, sent: Nanos) -> f64 {
        self.all().iter().map(|&at| delay(sent, at)).sum::<f64>() / self.count as f64
    }
}

fn delay(sent: Nanos, at: Nanos) -> f64 {
    at.wrapping_sub(sent) as i64 as f64
}

#[derive(Clone, Copy, Debug)]
struct Train {
    sent: Nanos,
    /// Packets in either class.
    size: usize,
    low: Arrivals,
    high: Arrivals,
}

/// What a train says.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Share of pairs in which the high class has overtaken the low one.
    inversions: f64,
    /// Share of the queueing delay that the high class was spared.
    gap: f64,
}

#[derive(Debug)]
pub(super) struct Detector {
    config: Config,
    /// Packets of either class in the current train, and how many of both are still to leave.
    size: usize,
    left: usize,
    begun: Nanos,
    due: Nanos,
    waiting: VecDeque<Train>,
    outcomes: VecDeque<Outcome>,
    /// Least one-way delay.
    base: f64,
    verdict: Verdict,
    trains: u64,
}

impl Detector {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            size: 0,
            left: 0,
            begun: 0,
            due: 0,
            waiting: VecDeque::new(),
            outcomes: VecDeque::new(),
            base: f64::INFINITY,
            verdict: Verdict::Unknown,
            trains: 0,
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Trains sent.
    pub(super) fn trains(&self) -> u64 {
        self.trains
    }

    /// Packets in either class of a train for which a window of `window` packets has room, one at least.
    pub(super) fn size(&self, window: f64) -> usize {
        self.config.train.min((window / 2.0) as usize).max(1)
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.due && self.left == 0 && self.verdict != Verdict::NoPriority
    }

    pub(super) fn begin(&mut self, now: Nanos, rtt: Nanos, size: usize) {
        let rounds = if self.verdict == Verdict::Unknown { SEARCHING } else { WATCHING };
        self.due = now.saturating_add(rounds * rtt.max(1));
        (self.size, self.left, self.begun) = (size, 2 * size, now);
        self.trains += 1;
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Train {
            sent: now,
            size,
            low: Arrivals::default(),
            high: Arrivals::default(),
        });
    }

    /// The class of the next packet of the train that leaves now.
    pub(super) fn next_class(&self) -> Option<Class> {
        match self.left {
            0 => None,
            left if left > self.size => Some(Class::Low),
            _ => Some(Class::High),
        }
    }

    /// When the train has begun; all its packets carry this time.
    pub(super) fn begun(&self) -> Nanos {
        self.begun
    }

    pub(super) fn on_sent(&mut self) {
        self.left -= 1;
    }

    /// There is nothing to send the rest with.
    pub(super) fn abandon(&mut self) {
        self.left = 0;
        self.waiting.pop_back();
    }

    /// A packet of the train sent at `sent` has arrived at `at`.
    pub(super) fn on_arrival(
        &mut self,
        now: Nanos,
        rtt: Nanos,
        sent: Nanos,
        class: Class,
        at: Nanos,
    ) {
        if let Some(train) = self.waiting.iter_mut().find(|train| train.sent == sent) {
            self.base = self.base.min(delay(sent, at));
            match class {
                Class::Low => train.low.push(at),
                Class::High => train.high.push(at),
            }
        }
        self.judge(now, rtt);
    }

    fn judge(&mut self, now: Nanos, rtt: Nanos) {
        let patience = MIN_PATIENCE.max(PATIENCE.saturating_mul(rtt));
        while let Some(train) = self.waiting.front().copied() {
            let whole = train.low.count + train.high.count == 2 * train.size;
            if !whole && now.saturating_sub(train.sent) < patience {
                return;
            }
            self.waiting.pop_front();
            if let Some(outcome) = self.outcome(&train) {
                if self.outcomes.len() == self.config.trains {
                    self.outcomes.pop_front();
                }
                self.outcomes.push_back(outcome);
                self.decide();
            }
        }
    }

    /// None where the train met no queue, or too little of it came.
    fn outcome(&self, train: &Train) -> Option<Outcome> {
        let (low, high) = (&train.low, &train.high);
        if low.count == 0 && high.count == train.size {
            // Starved.
            return Some(Outcome { inversions: 1.0, gap: 1.0 });
        }
        if low.count == 0 || high.count == 0 {
            return None;
        }
        let pairs = low.count * high.count;
        let overtaken: usize =
            low.all().iter().map(|at| high.all().iter().filter(|&other| other < at).count()).sum();
        let (low, high) = (low.delay(train.sent), high.delay(train.sent));
        let queueing = low.max(high) - self.base;
        if overtaken == 0 && queueing <= self.config.queueing as f64 {
            return None;
        }
        let gap = if queueing > 0.0 { ((low - high) / queueing).clamp(-1.0, 1.0) } else { 0.0 };
        Some(Outcome { inversions: overtaken as f64 / pairs as f64, gap })
    }

    fn decide(&mut self) {
        let count = self.outcomes.len();
        if count < self.config.trains || self.verdict == Verdict::NoPriority {
            return;
        }
        let mean =
            |of: fn(&Outcome) -> f64| self.outcomes.iter().map(of).sum::<f64>() / count as f64;
        let most = mean(|outcome| outcome.inversions).max(mean(|outcome| outcome.gap));
        self.verdict =
            if most > self.config.threshold { Verdict::Priority } else { Verdict::NoPriority };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn detector() -> Detector {
        Detector::new(Config { train: 3, trains: 10, threshold: 0.2, queueing: MS })
    }

    /// `count` trains of three and three, with these one-way delays in ms.
    fn trains(detector: &mut Detector, count: u64, low: [u64; 3], high: [u64; 3]) {
        let first = detector.due;
        for train in 0..count {
            let sent = first + train * 100 * MS;
            detector.begin(sent, 50 * MS, 3);
            assert_eq!(detector.next_class(), Some(Class::Low));
            for _ in 0..6 {
                detector.on_sent();
            }
            assert_eq!(detector.next_class(), None);
            for (class, delays) in [(Class::High, high), (Class::Low, low)] {
                for delay in delays {
                    detector.on_arrival(sent + 90 * MS, 50 * MS, sent, class, sent + delay * MS);
                }
            }
        }
    }

    #[test]
    fn inversions_show_priority() {
        let mut detector = detector();
        trains(&mut detector, 9, [60, 61, 62], [40, 41, 42]);
        assert_eq!(detector.verdict(), Verdict::Unknown);
        trains(&mut detector, 1, [60, 61, 62], [40, 41, 42]);
        assert_eq!(detector.verdict(), Verdict::Priority);
    }

    /// The first train meets an empty queue; ten others a common one.
    #[test]
    fn a_common_queue_shows_none() {
        let mut detector = detector();
        trains(&mut detector, 1, [40; 3], [40; 3]);
        trains(&mut detector, 9, [60, 61, 62], [63, 64, 65]);
        assert_eq!(detector.verdict(), Verdict::Unknown);
        trains(&mut detector, 1, [60, 61, 62], [63, 64, 65]);
        assert_eq!(detector.verdict(), Verdict::NoPriority);
        assert!(!detector.is_due(Nanos::MAX));
    }

    /// A window of 5 has room for two and two, one of 1 for none, but a pair is sent in any case.
    #[test]
    fn trains_fit_the_window() {
        let sizes = [1.0, 2.0, 5.0, 6.0, 100.0].map(|window| detector().size(window));
        assert_eq!(sizes, [1, 1, 2, 3, 3]);
    }

    #[test]
    fn without_a_queue_nothing_is_known() {
        let mut detector = detector();
        trains(&mut detector, 100, [40; 3], [40; 3]);
        assert_eq!(detector.verdict(), Verdict::Unknown);
        assert!(detector.is_due(Nanos::MAX));
    }

    #[test]
    fn starvation_shows_priority() {
        let mut detector = detector();
        for train in 0..11u64 {
            let sent = train * SECOND;
            detector.begin(sent, 50 * MS, 3);
            for _ in 0..6 {
                detector.on_sent();
            }
            for _ in 0..3 {
                detector.on_arrival(sent + 50 * MS, 50 * MS, sent, Class::High, sent + 40 * MS);
            }
        }
        assert_eq!(detector.verdict(), Verdict::Priority);
    }

    const SECOND: Nanos = 1_000 * MS;
}
