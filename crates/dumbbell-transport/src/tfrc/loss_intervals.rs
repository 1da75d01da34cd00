//! The loss event rate from the intervals between loss events (RFC 5348 sections 5.3 to 5.5).

/// Closed intervals that count.
const INTERVALS: usize = 8;
/// Of the newest interval first.
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// The least that older intervals are discounted by while the open one lasts.
const LEAST_DISCOUNT: f64 = 0.25;

/// An interval between the first losses of two successive loss events.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    /// Packets.
    length: f64,
    /// What discounting has left of its weight (section 5.5).
    discount: f64,
}

/// The last loss intervals.
#[derive(Clone, Debug)]
pub(super) struct LossIntervals {
    /// Closed ones, the newest first.
    closed: [Interval; INTERVALS],
    count: usize,
    discounting: bool,
}

impl LossIntervals {
    pub(super) fn new(discounting: bool) -> Self {
        Self { closed: [Interval::default(); INTERVALS], count: 0, discounting }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An interval of `length` packets has been closed by a loss event.
    pub(super) fn close(&mut self, length: f64) {
        let length = length.max(1.0);
        let discount = self.discount(length);
        for interval in &mut self.closed[..self.count] {
            interval.discount *= discount;
        }
        self.closed.rotate_right(1);
        self.closed[0] = Interval { length, discount: 1.0 };
        self.count = (self.count + 1).min(INTERVALS);
    }

    fn closed(&self) -> impl Iterator<Item = (&Interval, f64)> {
        self.closed[..self.count].iter().zip(WEIGHTS)
    }

    /// Total and weight of the closed intervals.
    fn total(&self) -> (f64, f64) {
        self.closed().fold((0.0, 0.0), |(total, weight), (interval, w)| {
            let w = w * interval.discount;
            (total + interval.length * w, weight + w)
        })
    }

    /// What older weights are multiplied by because of an open interval of `open` packets.
    fn discount(&self, open: f64) -> f64 {
        if !self.discounting || self.count == 0 {
            return 1.0;
        }
        let (total, weight) = self.total();
        (2.0 * total / weight / open).clamp(LEAST_DISCOUNT, 1.0)
    }

    /// The loss event rate p with an open interval of `open` packets, 0 before the first loss event. The
    /// open one counts only where it lowers p.
    pub(super) fn rate(&self, open: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let discount = self.discount(open);
        let with_open = self.closed[..self.count - 1].iter().zip(&WEIGHTS[1..]).fold(
            (open * WEIGHTS[0], WEIGHTS[0]),
            |(total, weight), (interval, w)| {
                let w = w * interval.discount * discount;
                (total + interval.length * w, weight + w)
            },
        );
        let (total, weight) = self.total();
        (with_open.1 / with_open.0.max(1.0)).min(weight / total).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(discounting: bool, lengths: &[f64]) -> LossIntervals {
        let mut intervals = LossIntervals::new(discounting);
        for &length in lengths.iter().rev() {
            intervals.close(length);
        }
        intervals
    }

    fn mean(intervals: &LossIntervals, open: f64) -> f64 {
        1.0 / intervals.rate(open)
    }

    /// I_mean = max(I_tot0, I_tot1) / W_tot, W_tot = 6 for eight intervals. The open interval counts
    /// where it is long: (700 + 5 x 100) / 6. Of the last, the closed ones give (10 + 20 + 30 + 40 + 40 +
    /// 36 + 28 + 16) / 6 = 220 / 6, and with the open one (30 + 10 + 20 + 30 + 32 + 30 + 24 + 14) / 6 is
    /// less.
    #[test]
    fn weighted_means() {
        let equal = closed(false, &[100.0; 8]);
        assert!((mean(&equal, 5.0) - 100.0).abs() < 1e-9);
        assert!((mean(&equal, 700.0) - 200.0).abs() < 1e-9);
        let few = closed(false, &[10.0, 20.0, 30.0]);
        assert!((mean(&few, 5.0) - 20.0).abs() < 1e-9);
        assert!((mean(&few, 50.0) - 80.0 / 3.0).abs() < 1e-9);
        let rising = closed(false, &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 1e6]);
        assert!((mean(&rising, 30.0) - 220.0 / 6.0).abs() < 1e-9);
        assert_eq!(LossIntervals::new(false).rate(1e9), 0.0);
    }

    /// Eight intervals of 100. An open one of 400 is more than twice their mean: DF = 2 * 100 / 400 =
    /// 0.5, (400 + 0.5 * 5 * 100) / (1 + 0.5 * 5) = 650 / 3.5. An open one of 2000: DF = 0.25, (2000 +
    /// 0.25 * 500) / 2.25 = 2125 / 2.25. When that one is closed, the factor stays with the others:
    /// (2000 + 0.25 * 500) / (1 + 0.25 * 5), and with an open one of 100 beside it nothing more is
    /// discounted: the closed ones alone give the larger mean.
    #[test]
    fn old_intervals_are_discounted() {
        let mut intervals = closed(true, &[100.0; 8]);
        assert!((mean(&intervals, 200.0) - 700.0 / 6.0).abs() < 1e-9, "not more than twice");
        assert!((mean(&intervals, 400.0) - 650.0 / 3.5).abs() < 1e-9);
        assert!((mean(&intervals, 2000.0) - 2125.0 / 2.25).abs() < 1e-9);
        intervals.close(2000.0);
        assert!((mean(&intervals, 100.0) - 2125.0 / 2.25).abs() < 1e-9);
        let plain = closed(false, &[100.0; 8]);
        assert!((mean(&plain, 2000.0) - 2500.0 / 6.0).abs() < 1e-9);
    }
}
