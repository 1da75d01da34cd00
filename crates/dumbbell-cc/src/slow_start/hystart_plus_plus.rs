//! HyStart++ (RFC 9406): when a round's least RTT rises, grow at a quarter of the pace
//! ("conservative slow start"); go back to slow start if the RTT falls again, and into avoidance
//! after five rounds. Only the first slow start of a connection is treated so.

use super::{SlowStart, View, rtt_threshold};
use crate::event::{Ack, Nanos};

#[derive(Clone, Copy, Debug)]
pub struct HyStartPlusPlusSettings {
    pub min_thresh: Nanos,
    pub max_thresh: Nanos,
    /// N_RTT_SAMPLE.
    pub samples: u64,
    pub css_growth_divisor: u64,
    pub css_rounds: u64,
    /// Segments by which one ACK may grow the window of an unpaced sender.
    pub l: u64,
}

impl Default for HyStartPlusPlusSettings {
    fn default() -> Self {
        Self {
            min_thresh: 4_000_000,
            max_thresh: 16_000_000,
            samples: 8,
            css_growth_divisor: 4,
            css_rounds: 5,
            l: 8,
        }
    }
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline: Nanos,
    /// Rounds begun since; the partial round of the entry counts.
    rounds: u64,
}

#[derive(Clone, Debug)]
pub struct HyStartPlusPlus {
    settings: HyStartPlusPlusSettings,
    /// The first slow start is over.
    done: bool,
    css: Option<Css>,
    window_end: Option<u64>,
    last_min: Option<Nanos>,
    current_min: Option<Nanos>,
    samples: u64,
    paced: bool,
}

impl HyStartPlusPlus {
    pub fn new(settings: HyStartPlusPlusSettings) -> Self {
        Self {
            settings,
            done: false,
            css: None,
            window_end: None,
            last_min: None,
            current_min: None,
            samples: 0,
            paced: false,
        }
    }

    fn new_round(&mut self, ack: &Ack) -> bool {
        self.window_end = Some(ack.snd_nxt);
        self.last_min = self.current_min.or(self.last_min);
        self.current_min = None;
        self.samples = 0;
        self.css.as_mut().is_some_and(|css| {
            css.rounds += 1;
            css.rounds >= self.settings.css_rounds
        })
    }

    fn judge_rtt(&mut self) {
        let (Some(current), true) = (self.current_min, self.samples >= self.settings.samples)
        else {
            return;
        };
        if let Some(css) = self.css {
            if current < css.baseline {
                self.css = None;
            }
        } else if let Some(last) = self.last_min {
            let rise = rtt_threshold(last, self.settings.min_thresh, self.settings.max_thresh);
            if current >= last.saturating_add(rise) {
                self.css = Some(Css { baseline: current, rounds: 0 });
            }
        }
    }
}

impl SlowStart for HyStartPlusPlus {
    fn on_ack(&mut self, ack: &Ack, view: &View) -> bool {
        if self.done {
            return false;
        }
        self.paced = view.paced;
        if self.window_end.is_none_or(|end| ack.snd_una > end) && self.new_round(ack) {
            self.done = true;
            return true;
        }
        if let Some(rtt) = ack.rtt {
            self.current_min = Some(self.current_min.map_or(rtt, |m| m.min(rtt)));
            self.samples += 1;
            self.judge_rtt();
        }
        false
    }

    fn growth(&self, acked: u64, mss: u64) -> u64 {
        if self.done {
            return acked;
        }
        let acked = if self.paced { acked } else { acked.min(self.settings.l.saturating_mul(mss)) };
        if self.css.is_some() { acked / self.settings.css_growth_divisor } else { acked }
    }

    fn on_congestion(&mut self) {
        self.done = true;
    }

    fn on_timeout(&mut self) {
        self.done = true;
    }

    fn phase(&self) -> &'static str {
        if self.css.is_some() && !self.done { "css" } else { "slow_start" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const VIEW: View = View { cwnd: 100, delay_min: 40 * MS, paced: false };

    /// One round of ten ACKs with the same RTT. Returns whether slow start ended.
    fn round(part: &mut HyStartPlusPlus, number: u64, rtt: Nanos) -> bool {
        (1..=10).any(|i| {
            let ack = Ack {
                now: number * 100 * MS,
                mss: 1000,
                rtt: Some(rtt),
                snd_una: number * 10 + i,
                // Ten more segments are outstanding.
                snd_nxt: number * 10 + i + 9,
                ..Ack::default()
            };
            part.on_ack(&ack, &VIEW)
        })
    }

    #[test]
    fn rises_then_falls_back_to_slow_start() {
        let mut part = HyStartPlusPlus::new(HyStartPlusPlusSettings::default());
        assert!(!round(&mut part, 0, 40 * MS));
        assert_eq!(part.phase(), "slow_start");
        // 40/8 = 5 ms: one nanosecond less is not enough.
        assert!(!round(&mut part, 1, 45 * MS - 1));
        assert_eq!(part.phase(), "slow_start");
        assert!(!round(&mut part, 2, 51 * MS));
        assert_eq!(part.phase(), "css");
        assert_eq!(part.growth(4000, 1000), 1000);
        assert!(!round(&mut part, 3, 50 * MS));
        assert_eq!(part.phase(), "slow_start");
        assert_eq!(part.growth(4000, 1000), 4000);
    }

    #[test]
    fn five_rounds_of_css_lead_to_avoidance() {
        let mut part = HyStartPlusPlus::new(HyStartPlusPlusSettings::default());
        round(&mut part, 0, 40 * MS);
        round(&mut part, 1, 50 * MS);
        assert_eq!(part.phase(), "css");
        for number in 2..=5 {
            assert!(!round(&mut part, number, 50 * MS), "round {number}");
            assert_eq!(part.phase(), "css");
        }
        assert!(round(&mut part, 6, 50 * MS));
    }

    /// RFC 9406 section 4.3: thresholds are 4 ms at least and 16 ms at most.
    #[test]
    fn threshold_is_an_eighth_within_bounds() {
        assert_eq!(rtt_threshold(8 * MS, 4 * MS, 16 * MS), 4 * MS);
        assert_eq!(rtt_threshold(80 * MS, 4 * MS, 16 * MS), 10 * MS);
        assert_eq!(rtt_threshold(800 * MS, 4 * MS, 16 * MS), 16 * MS);
    }

    #[test]
    fn one_ack_grows_an_unpaced_window_by_eight_segments() {
        let mut part = HyStartPlusPlus::new(HyStartPlusPlusSettings::default());
        assert_eq!(part.growth(20_000, 1000), 8_000);
        round(&mut part, 0, 40 * MS);
        part.paced = true;
        assert_eq!(part.growth(20_000, 1000), 20_000);
    }

    #[test]
    fn only_the_first_slow_start_is_treated() {
        let mut part = HyStartPlusPlus::new(HyStartPlusPlusSettings::default());
        round(&mut part, 0, 40 * MS);
        part.on_congestion();
        for number in 1..20 {
            assert!(!round(&mut part, number, 90 * MS));
            assert_eq!(part.phase(), "slow_start");
        }
    }
}
