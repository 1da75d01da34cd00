//! SEARCH (draft-chung-ccwg-search, version 3): leave slow start when the data delivered in a window
//! of several round trips falls short of twice what it was a round trip before, at the window of the
//! point where that began.

use super::{SlowStart, View};
use crate::event::{Ack, Nanos};

#[derive(Clone, Copy, Debug)]
pub struct SearchSettings {
    /// WINDOW_SIZE over the first RTT.
    pub window_factor: f64,
    /// W.
    pub bins: usize,
    pub extra_bins: usize,
    /// THRESH.
    pub threshold: f64,
    /// Take back what slow start sent beyond the point.
    pub drain: bool,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { window_factor: 3.5, bins: 10, extra_bins: 15, threshold: 0.35, drain: true }
    }
}

/// Bins of the data delivered.
#[derive(Clone, Debug)]
struct Bins {
    duration: Nanos,
    initial_rtt: Nanos,
    bytes: Vec<u64>,
    /// Bins completed.
    count: u64,
    end: Nanos,
    delivered: u64,
}

impl Bins {
    fn new(settings: &SearchSettings, ack: &Ack, rtt: Nanos) -> Self {
        let window = rtt as f64 * settings.window_factor;
        let duration = ((window / settings.bins as f64) as Nanos).max(1);
        Self {
            duration,
            initial_rtt: rtt,
            bytes: vec![0; settings.bins + settings.extra_bins],
            count: 0,
            end: ack.now.saturating_add(duration),
            delivered: ack.delivered,
        }
    }

    fn slot(&mut self, index: u64) -> &mut u64 {
        let length = self.bytes.len() as u64;
        &mut self.bytes[(index % length) as usize]
    }

    fn bin(&self, index: u64) -> f64 {
        self.bytes[(index % self.bytes.len() as u64) as usize] as f64
    }

    /// The end of a bin has passed: what came since the last one is of the newest bin.
    fn update(&mut self, ack: &Ack) {
        let passed = (ack.now - self.end) / self.duration + 1;
        self.end += passed * self.duration;
        let cleared = passed.min(self.bytes.len() as u64);
        for back in 0..cleared {
            *self.slot(self.count + passed - 1 - back) = 0;
        }
        self.count += passed;
        let newest = ack.delivered.saturating_sub(self.delivered);
        *self.slot(self.count - 1) = newest;
        self.delivered = ack.delivered;
    }

    /// Data of the `width` bins before `end` (a count of bins), all of it `fraction` of a bin earlier.
    fn sum(&self, end: u64, width: u64, fraction: f64) -> f64 {
        let whole: f64 = (end - width..end - 1).map(|index| self.bin(index)).sum();
        let mut sum = whole + self.bin(end - 1) * (1.0 - fraction);
        if fraction > 0.0 {
            sum += self.bin(end - width - 1) * fraction;
        }
        sum
    }
}

#[derive(Clone, Debug)]
pub struct Search {
    settings: SearchSettings,
    bins: Option<Bins>,
    /// Slow start is over.
    done: bool,
    excess: u64,
}

impl Search {
    pub fn new(settings: SearchSettings) -> Self {
        Self { settings, bins: None, done: false, excess: 0 }
    }

    /// How far the delivery falls short of twice that of a round trip before; 0.5 if it has not grown.
    fn shortfall(&self, bins: &Bins, rtt: Nanos) -> Option<f64> {
        let width = self.settings.bins as u64;
        let shift = rtt / bins.duration;
        let fraction = (rtt % bins.duration) as f64 / bins.duration as f64;
        if shift > self.settings.extra_bins as u64 - 1 || bins.count < width + shift + 1 {
            return None;
        }
        let twice = 2.0 * bins.sum(bins.count - shift, width, fraction);
        (twice > 0.0).then(|| (twice - bins.sum(bins.count, width, 0.0)) / twice)
    }
}

impl SlowStart for Search {
    fn on_ack(&mut self, ack: &Ack, _view: &View) -> bool {
        if self.done {
            return false;
        }
        let Some(bins) = &mut self.bins else {
            self.bins = ack.rtt.map(|rtt| Bins::new(&self.settings, ack, rtt));
            return false;
        };
        let Some(rtt) = ack.rtt else {
            return false;
        };
        if ack.now <= bins.end {
            return false;
        }
        bins.update(ack);
        let Some(bins) = &self.bins else {
            return false;
        };
        if self.shortfall(bins, rtt).is_none_or(|shortfall| shortfall < self.settings.threshold) {
            return false;
        }
        self.done = true;
        if self.settings.drain {
            // The point was about two round trips ago: all that has come in since widened the window.
            let back = (2 * bins.initial_rtt / bins.duration).clamp(1, bins.count);
            let back = back.min(bins.bytes.len() as u64);
            self.excess = bins.sum(bins.count, back, 0.0) as u64;
        }
        true
    }

    fn excess(&self) -> u64 {
        self.excess
    }

    fn on_congestion(&mut self) {
        self.done = true;
    }

    /// Slow start begins again, and the search with it.
    fn on_timeout(&mut self) {
        *self = Self::new(self.settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const RTT: Nanos = 100 * MS;
    const VIEW: View = View { cwnd: 100, delay_min: RTT, paced: false };

    /// Deliver at a rate that doubles each round trip from `first` bytes up to `capacity` a round
    /// trip, an ACK a millisecond. Returns the round trips before the exit, and the plug-in.
    fn deliver(mut part: Search, first: f64, capacity: f64) -> (f64, Search) {
        let mut delivered = 0.0;
        for step in 0_u64..5000 {
            let rounds = step as f64 / 100.0;
            delivered += (first * rounds.exp2()).min(capacity) / 100.0;
            let ack = Ack {
                now: step * MS,
                rtt: Some(RTT),
                delivered: delivered as u64,
                ..Ack::default()
            };
            if part.on_ack(&ack, &VIEW) {
                return (rounds, part);
            }
        }
        (f64::INFINITY, part)
    }

    /// Section 4: the threshold of 0.35 is met about two round trips after delivery stops growing.
    #[test]
    fn leaves_two_round_trips_after_the_capacity_is_reached() {
        // 2^7: the capacity is reached after seven round trips.
        let (rounds, part) =
            deliver(Search::new(SearchSettings::default()), 14_480.0, 128.0 * 14_480.0);
        assert!((8.0..=10.0).contains(&rounds), "{rounds}");
        // Two round trips' worth of delivery, by bins of 35 ms: 5 of them.
        let capacity = 128.0 * 14_480.0;
        assert!((part.excess() as f64 / capacity - 1.75).abs() < 0.05, "{}", part.excess());
    }

    #[test]
    fn does_not_leave_while_delivery_doubles() {
        let (rounds, _) = deliver(Search::new(SearchSettings::default()), 1000.0, f64::INFINITY);
        assert_eq!(rounds, f64::INFINITY);
    }

    /// The draft's own example: after 1, 2, 4, 8, 16, 16 a window of four gives 44 against 30, so the
    /// shortfall is (60 - 44)/60 = 0.27.
    #[test]
    fn shortfall_of_the_drafts_example() {
        let settings = SearchSettings { window_factor: 4.0, bins: 4, ..SearchSettings::default() };
        let part = Search::new(settings);
        let start = Ack { rtt: Some(RTT), ..Ack::default() };
        let mut bins = Bins::new(&settings, &start, RTT);
        let mut delivered = 0;
        for (index, bytes) in [1, 2, 4, 8, 16, 16].into_iter().enumerate() {
            delivered += bytes;
            let now = (index as u64 + 1) * RTT + MS;
            bins.update(&Ack { now, delivered, ..Ack::default() });
        }
        let shortfall = part.shortfall(&bins, RTT).unwrap();
        assert!((shortfall - 16.0 / 60.0).abs() < 1e-12, "{shortfall}");
    }

    #[test]
    fn a_silence_longer_than_all_bins_is_survived() {
        let mut part = Search::new(SearchSettings::default());
        let ack = |now, delivered| Ack { now, delivered, rtt: Some(RTT), ..Ack::default() };
        for step in 0..20 {
            part.on_ack(&ack(step * 40 * MS, step * 1000), &VIEW);
        }
        assert!(!part.on_ack(&ack(1_000_000 * MS, 50_000), &VIEW));
    }
}
