//! Monitor intervals: what was sent at one rate, and what came of it.
//!
//! A segment's round-trip time tells when it was sent, so it counts in the interval of its sending.
//! Loss is charged to the oldest interval that still has data out, as data is accounted for in the
//! order of its sending to within the reordering that loss detection waits for.

use std::collections::VecDeque;

use crate::event::Nanos;

/// What an interval is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Doubling at the start.
    Start,
    /// One of a pair: a rate somewhat above or below the base rate.
    Higher,
    Lower,
    /// Nobody looks at it: results of earlier ones are awaited.
    Wait,
}

/// Sums for a straight line through (time sent, round-trip time), both from the interval's first.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    origin: Option<(Nanos, Nanos)>,
}

impl Line {
    fn add(&mut self, time: Nanos, value: Nanos) {
        let (time_0, value_0) = *self.origin.get_or_insert((time, value));
        let x = time as f64 - time_0 as f64;
        let y = value as f64 - value_0 as f64;
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Least-squares slope; 0 where there is none.
    fn slope(&self) -> f64 {
        let spread = self.n * self.xx - self.x * self.x;
        if spread > 0.0 { (self.n * self.xy - self.x * self.y) / spread } else { 0.0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    purpose: Purpose,
    /// Bytes per second aimed at.
    rate: f64,
    start: Nanos,
    /// Bytes sent on the connection before it.
    sent_before: u64,
    /// Time and bytes sent at its end.
    end: Option<(Nanos, u64)>,
    lost: u64,
    line: Line,
}

/// An interval all of whose data is accounted for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) purpose: Purpose,
    /// Bytes per second: aimed at, and sent.
    pub(super) rate: f64,
    pub(super) actual: f64,
    /// Part of what was sent.
    pub(super) loss: f64,
    /// dRTT/dt.
    pub(super) gradient: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Monitor {
    intervals: VecDeque<Interval>,
    sent: u64,
    lost: u64,
}

impl Monitor {
    pub(super) fn new(now: Nanos, purpose: Purpose, rate: f64) -> Self {
        let mut monitor = Self { intervals: VecDeque::new(), sent: 0, lost: 0 };
        monitor.begin(now, purpose, rate);
        monitor
    }

    /// End the present interval and begin another.
    pub(super) fn begin(&mut self, now: Nanos, purpose: Purpose, rate: f64) {
        let sent = self.sent;
        if let Some(last) = self.intervals.back_mut() {
            last.end = Some((now, sent));
        }
        self.intervals.push_back(Interval {
            purpose,
            rate,
            start: now,
            sent_before: sent,
            end: None,
            lost: 0,
            line: Line::default(),
        });
    }

    /// Start and purpose of the present interval.
    pub(super) fn present(&self) -> Option<(Nanos, Purpose)> {
        self.intervals.back().map(|last| (last.start, last.purpose))
    }

    /// Forget all but the present interval, and what that was for.
    pub(super) fn forget(&mut self) {
        if let Some(mut last) = self.intervals.pop_back() {
            last.purpose = Purpose::Wait;
            self.intervals.clear();
            self.intervals.push_back(last);
        }
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    pub(super) fn on_rtt(&mut self, now: Nanos, rtt: Nanos) {
        let sent_at = now.saturating_sub(rtt);
        let of_it = |interval: &&mut Interval| interval.start <= sent_at;
        if let Some(interval) = self.intervals.iter_mut().rev().find(of_it) {
            interval.line.add(sent_at, rtt);
        }
    }

    /// `lost`: bytes marked lost over the connection's life.
    pub(super) fn on_lost(&mut self, lost: u64) {
        let newly = lost.saturating_sub(self.lost);
        self.lost = lost;
        if let Some(oldest) = self.intervals.front_mut() {
            oldest.lost += newly;
        }
    }

    /// The oldest interval, once none of its data is out any more.
    pub(super) fn next_report(&mut self, inflight: u64) -> Option<Report> {
        let front = self.intervals.front()?;
        let (end, sent) = front.end?;
        if self.sent.saturating_sub(inflight) < sent {
            return None;
        }
        let front = self.intervals.pop_front()?;
        let bytes = (sent - front.sent_before) as f64;
        let seconds = end.saturating_sub(front.start) as f64 / 1e9;
        Some(Report {
            purpose: front.purpose,
            rate: front.rate,
            actual: if seconds > 0.0 { bytes / seconds } else { 0.0 },
            loss: if bytes > 0.0 { (front.lost as f64 / bytes).min(1.0) } else { 0.0 },
            gradient: front.line.slope(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn an_interval_is_reported_when_its_data_is_accounted_for() {
        let mut monitor = Monitor::new(0, Purpose::Start, 1e6);
        for _ in 0..10 {
            monitor.on_sent(1000);
        }
        monitor.begin(10 * MS, Purpose::Wait, 1e6);
        monitor.on_sent(1000);
        monitor.on_lost(2000);
        assert!(monitor.next_report(2000).is_none());
        let report = monitor.next_report(1000).unwrap();
        assert_eq!(report.purpose, Purpose::Start);
        assert!((report.actual - 1e6).abs() < 1e-6);
        assert!((report.loss - 0.2).abs() < 1e-12);
    }

    /// A queue that grows by 0.2 s a second shows as that slope in the interval in which it did.
    #[test]
    fn the_gradient_is_that_of_the_interval_of_sending() {
        let mut monitor = Monitor::new(0, Purpose::Higher, 1e6);
        monitor.on_sent(1000);
        monitor.begin(10 * MS, Purpose::Lower, 1e6);
        for sent in 0..20 {
            let at = sent * MS;
            let rtt = if at < 10 * MS { 40 * MS + at / 5 } else { 42 * MS };
            monitor.on_rtt(at + rtt, rtt);
        }
        monitor.on_sent(1000);
        monitor.begin(20 * MS, Purpose::Wait, 1e6);
        let higher = monitor.next_report(0).unwrap();
        let lower = monitor.next_report(0).unwrap();
        assert!((higher.gradient - 0.2).abs() < 1e-9, "{}", higher.gradient);
        assert!(lower.gradient.abs() < 1e-12, "{}", lower.gradient);
    }
}
