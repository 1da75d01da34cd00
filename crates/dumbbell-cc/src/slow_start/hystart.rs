//! HyStart (Ha and Rhee, "Taming the elephants", 2011) with the parameters and changes of Linux.
//!
//! Slow start ends when the ACKs of one round arrive as a train that spans half the minimum RTT
//! (the whole of it for a paced sender, whose data is itself spread), or when the least RTT of a
//! round's first samples exceeds the minimum RTT by an eighth (4 to 16 ms).

use super::{SlowStart, View, rtt_threshold};
use crate::event::{Ack, Nanos};

/// Bytes that the ACK train allowance is made of: four of the largest offload bursts (Linux).
const TRAIN_ALLOWANCE: f64 = 4.0 * 65_536.0;
/// The allowance's upper bound.
const MAX_TRAIN_ALLOWANCE: f64 = 1e6;

#[derive(Clone, Copy, Debug)]
pub struct HyStartSettings {
    pub train: bool,
    pub delay: bool,
    /// Segments.
    pub low_window: u64,
    pub ack_delta: Nanos,
    pub min_thresh: Nanos,
    pub max_thresh: Nanos,
    pub samples: u64,
}

impl Default for HyStartSettings {
    fn default() -> Self {
        Self {
            train: true,
            delay: true,
            low_window: 16,
            ack_delta: 2_000_000,
            min_thresh: 4_000_000,
            max_thresh: 16_000_000,
            samples: 8,
        }
    }
}

#[derive(Clone, Debug)]
pub struct HyStart {
    settings: HyStartSettings,
    /// An exit was found; nothing more until a timeout.
    found: bool,
    /// The round ends when this is acked.
    end_seq: Option<u64>,
    round_start: Nanos,
    last_ack: Nanos,
    /// Least RTT of the round, and how many samples it has.
    round_min: Nanos,
    samples: u64,
}

impl HyStart {
    pub fn new(settings: HyStartSettings) -> Self {
        Self {
            settings,
            found: false,
            end_seq: None,
            round_start: 0,
            last_ack: 0,
            round_min: Nanos::MAX,
            samples: 0,
        }
    }

    /// Time by which a train may be longer because the sender or the path sends in bursts: that of
    /// four offload bursts at slow start's nominal rate, 2 cwnd / srtt, at most 1 ms (Linux).
    fn train_allowance(ack: &Ack, view: &View) -> Nanos {
        let window = (view.cwnd * u64::from(ack.mss)) as f64;
        let rate = 2.0 * window / ack.srtt as f64;
        if ack.srtt == 0 || rate <= 0.0 {
            return 0;
        }
        (TRAIN_ALLOWANCE / rate).min(MAX_TRAIN_ALLOWANCE) as Nanos
    }
}

impl SlowStart for HyStart {
    fn on_ack(&mut self, ack: &Ack, view: &View) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        if self.found {
            return false;
        }
        if self.end_seq.is_none_or(|end| ack.snd_una > end) {
            self.end_seq = Some(ack.snd_nxt);
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.round_min = Nanos::MAX;
            self.samples = 0;
        }
        if view.cwnd < self.settings.low_window {
            return false;
        }
        if self.settings.train && ack.now.saturating_sub(self.last_ack) <= self.settings.ack_delta {
            self.last_ack = ack.now;
            let span = view.delay_min.saturating_add(Self::train_allowance(ack, view));
            let limit = if view.paced { span } else { span / 2 };
            self.found |= ack.now.saturating_sub(self.round_start) > limit;
        }
        if self.settings.delay {
            self.round_min = self.round_min.min(rtt);
            if self.samples < self.settings.samples {
                self.samples += 1;
            } else {
                let rise = rtt_threshold(
                    view.delay_min,
                    self.settings.min_thresh,
                    self.settings.max_thresh,
                );
                self.found |= self.round_min > view.delay_min.saturating_add(rise);
            }
        }
        self.found
    }

    fn on_timeout(&mut self) {
        *self = Self::new(self.settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Feed one round of `rtts` spaced by `gap`, window 100, minimum RTT 40 ms.
    fn round(
        hystart: &mut HyStart,
        una: u64,
        start: Nanos,
        gap: Nanos,
        rtts: &[Nanos],
        paced: bool,
    ) -> Option<usize> {
        let view = View { cwnd: 100, delay_min: 40 * MS, paced };
        rtts.iter().enumerate().find_map(|(i, &rtt)| {
            let ack = Ack {
                now: start + i as u64 * gap,
                mss: 1448,
                rtt: Some(rtt),
                srtt: 40 * MS,
                snd_una: una,
                snd_nxt: una + 1000,
                ..Ack::default()
            };
            hystart.on_ack(&ack, &view).then_some(i)
        })
    }

    /// Unpaced: more than (40 ms + 1 ms allowance) / 2 of closely spaced ACKs.
    #[test]
    fn a_train_of_half_the_minimum_rtt_ends_it() {
        let mut hystart = HyStart::new(HyStartSettings::default());
        assert_eq!(round(&mut hystart, 1, MS, MS, &[40 * MS; 60], false), Some(21));
        let mut paced = HyStart::new(HyStartSettings::default());
        assert_eq!(round(&mut paced, 1, MS, MS, &[40 * MS; 60], true), Some(42));
    }

    #[test]
    fn a_gap_above_the_spacing_breaks_the_train() {
        let mut hystart = HyStart::new(HyStartSettings::default());
        assert_eq!(round(&mut hystart, 1, MS, 3 * MS, &[40 * MS; 60], false), None);
    }

    /// The eighth of 40 ms is 5 ms; the ninth sample of a round is the first that may decide.
    #[test]
    fn a_rise_of_an_eighth_ends_it() {
        let mut hystart = HyStart::new(HyStartSettings::default());
        assert_eq!(round(&mut hystart, 1, MS, 0, &[45 * MS; 20], false), None);
        let mut hystart = HyStart::new(HyStartSettings::default());
        assert_eq!(round(&mut hystart, 1, MS, 0, &[46 * MS; 20], false), Some(8));
    }

    /// One spike among low samples is not a rise (the minimum counts).
    #[test]
    fn one_rtt_spike_does_not_end_it() {
        let mut hystart = HyStart::new(HyStartSettings::default());
        let mut rtts = [200 * MS; 20];
        rtts[3] = 41 * MS;
        assert_eq!(round(&mut hystart, 1, MS, 0, &rtts, false), None);
    }

    #[test]
    fn extreme_rtts_do_not_overflow() {
        let mut hystart = HyStart::new(HyStartSettings::default());
        let view = View { cwnd: 1_000_000_000, delay_min: Nanos::MAX, paced: false };
        for rtt in [0, 1, Nanos::MAX, 1] {
            let ack = Ack {
                now: Nanos::MAX,
                mss: 1448,
                rtt: Some(rtt),
                srtt: rtt,
                snd_una: u64::MAX,
                ..Ack::default()
            };
            assert!(!hystart.on_ack(&ack, &view));
        }
    }
}
