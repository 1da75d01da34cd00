//! The colour markers of differentiated services: srTCM (RFC 2697), trTCM (RFC 2698), TSWTCM (RFC 2859).

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::Nanos;
use crate::bucket::Bucket;
use crate::random::uniform;

/// How well a packet keeps to its profile; as a drop precedence, the greater is dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Colour {
    Green,
    Yellow,
    Red,
}

/// Measures a stream of packets and gives each a colour, which is never better than the one it
/// came with. A meter that is blind to colours is given green packets.
#[derive(Clone, Debug)]
pub(crate) enum Meter {
    SingleRate { committed: Bucket, excess: Bucket },
    TwoRate { committed: Bucket, peak: Bucket },
    SlidingWindow(SlidingWindow),
}

impl Meter {
    /// srTCM: rate CIR in bit/s; CBS and EBS in bytes. The excess bucket takes what the
    /// other has no room for.
    pub(crate) fn single_rate(cir: u64, cbs: u64, ebs: u64) -> Self {
        Self::SingleRate { committed: Bucket::new(cir, cbs), excess: Bucket::new(0, ebs) }
    }

    /// trTCM: rates CIR and PIR in bit/s; CBS and PBS in bytes.
    pub(crate) fn two_rate(cir: u64, cbs: u64, pir: u64, pbs: u64) -> Self {
        Self::TwoRate { committed: Bucket::new(cir, cbs), peak: Bucket::new(pir, pbs) }
    }

    /// TSWTCM: rates CTR and PTR in bit/s; the time that the rate is averaged over.
    pub(crate) fn sliding_window(ctr: f64, ptr: f64, interval: Nanos, seed: u64) -> Self {
        Self::SlidingWindow(SlidingWindow {
            committed: ctr / 8e9,
            peak: ptr / 8e9,
            interval: interval as f64,
            rate: ctr / 8e9,
            last: 0,
            random: Pcg32::seed_from_u64(seed),
        })
    }

    /// The colour of a packet that came with another.
    pub(crate) fn colour(&mut self, now: Nanos, bytes: u32, came: Colour) -> Colour {
        match self {
            // RFC 2697 section 3.
            Self::SingleRate { committed, excess } => {
                let overflow = committed.fill(now);
                excess.add(overflow);
                if came == Colour::Green && committed.take_if_enough(bytes) {
                    Colour::Green
                } else if came <= Colour::Yellow && excess.take_if_enough(bytes) {
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            // RFC 2698 section 3: a green packet takes from both.
            Self::TwoRate { committed, peak } => {
                committed.fill(now);
                peak.fill(now);
                if came == Colour::Red || !peak.take_if_enough(bytes) {
                    Colour::Red
                } else if came == Colour::Green && committed.take_if_enough(bytes) {
                    Colour::Green
                } else {
                    Colour::Yellow
                }
            }
            Self::SlidingWindow(window) => window.colour(now, bytes).max(came),
        }
    }
}

/// The time sliding window and its marker. Rates are in bytes per nanosecond.
#[derive(Clone, Debug)]
pub(crate) struct SlidingWindow {
    committed: f64,
    peak: f64,
    interval: f64,
    rate: f64,
    last: Nanos,
    random: Pcg32,
}

impl SlidingWindow {
    /// RFC 2859 section 3: the part of the rate above a target gets the worse colour, at random.
    fn colour(&mut self, now: Nanos, bytes: u32) -> Colour {
        let passed = now.saturating_sub(self.last) as f64;
        self.last = now;
        self.rate = (self.rate * self.interval + f64::from(bytes)) / (passed + self.interval);
        let chance = uniform(&mut self.random) * self.rate;
        if chance < self.rate - self.peak {
            Colour::Red
        } else if chance < self.rate - self.committed {
            Colour::Yellow
        } else {
            Colour::Green
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Colour::{Green, Red, Yellow};
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Colours of (time in ms, bytes, colour before).
    fn colours(mut meter: Meter, packets: &[(u64, u32, Colour)]) -> Vec<Colour> {
        packets.iter().map(|&(ms, bytes, came)| meter.colour(ms * MS, bytes, came)).collect()
    }

    /// RFC 2697 section 3 by hand: CIR 8 Mbit/s, 1000 bytes a ms; CBS 2000, EBS 1500. The comments
    /// give Tc and Te after each packet.
    #[test]
    fn single_rate_blind() {
        let packets = [
            (0, 1500, Green),  // 500, 1500
            (0, 600, Green),   // 500, 900: yellow
            (0, 1000, Green),  // 500, 900: red, and nothing is taken
            (0, 900, Green),   // 500, 0: yellow, the last tokens
            (1, 1500, Green),  // 0, 0: green with 1500
            (1, 1, Green),     // 0, 0: red
            (4, 1001, Green),  // 3 ms: Tc 2000, Te 1000, then 999, 1000
            (4, 1000, Green),  // 999, 0: yellow
            (10, 2000, Green), // full: Tc 2000, Te 1500; then 0, 1500
            (10, 1501, Green), // 0, 1500: red
            (10, 1500, Green), // 0, 0: yellow
        ];
        let expected = [Green, Yellow, Red, Yellow, Green, Red, Green, Yellow, Green, Red, Yellow];
        assert_eq!(colours(Meter::single_rate(8_000_000, 2000, 1500), &packets), expected);
    }

    /// The same, colour-aware: a yellow packet cannot become green, a red one stays and takes nothing.
    #[test]
    fn single_rate_aware() {
        let packets = [
            (0, 1000, Yellow), // 2000, 500: yellow though Tc is full
            (0, 1000, Yellow), // red: Te has 500
            (0, 500, Red),     // red
            (0, 500, Yellow),  // 2000, 0
            (0, 2000, Green),  // 0, 0
            (1, 1000, Yellow), // Tc has 1000, Te none: red
            (1, 1000, Green),  // 0, 0
        ];
        let expected = [Yellow, Red, Red, Yellow, Green, Red, Green];
        assert_eq!(colours(Meter::single_rate(8_000_000, 2000, 1500), &packets), expected);
    }

    /// RFC 2698 section 3 by hand: CIR 4 Mbit/s, 500 bytes a ms, CBS 1000; PIR 8 Mbit/s, 1000 bytes a
    /// ms, PBS 2500. The comments give Tp and Tc after each packet.
    #[test]
    fn two_rate_blind() {
        let packets = [
            (0, 1000, Green), // 1500, 0: green takes from both
            (0, 1000, Green), // 500, 0: yellow
            (0, 501, Green),  // 500, 0: red, and nothing is taken
            (1, 500, Green),  // 1500, 500, then 1000, 0: green
            (1, 1000, Green), // 0, 0: yellow
            (2, 1001, Green), // 1000, 500: red
            (2, 501, Green),  // 499, 500: yellow
            (2, 499, Green),  // 0, 1: green
        ];
        let expected = [Green, Yellow, Red, Green, Yellow, Red, Yellow, Green];
        assert_eq!(colours(Meter::two_rate(4_000_000, 1000, 8_000_000, 2500), &packets), expected);
    }

    /// Colour-aware: yellow takes from the peak bucket only, red from none.
    #[test]
    fn two_rate_aware() {
        let packets = [
            (0, 1000, Red),    // 2500, 1000
            (0, 1500, Yellow), // 1000, 1000
            (0, 1001, Yellow), // red
            (0, 1000, Green),  // 0, 0: green, so that yellow took nothing from Tc
            (0, 1, Green),     // red
        ];
        let expected = [Red, Yellow, Red, Green, Red];
        assert_eq!(colours(Meter::two_rate(4_000_000, 1000, 8_000_000, 2500), &packets), expected);
    }

    /// RFC 2859 section 3: at three times CTR, with PTR twice CTR, a third each is green (CTR), yellow
    /// (PTR - CTR) and red (the rest); at CTR and below all is green.
    #[test]
    fn sliding_window_marks_the_excess() {
        let share = |bytes: u32| {
            let mut meter = Meter::sliding_window(8e6, 16e6, 100 * MS, 1);
            let mut count = [0.0; 3];
            for ms in 0..31_000 {
                let colour = meter.colour(ms * MS, bytes, Green);
                if ms >= 1000 {
                    count[colour as usize] += 1.0 / 30_000.0;
                }
            }
            count
        };
        let near = |got: [f64; 3], expected: [f64; 3]| {
            got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01)
        };
        assert!(near(share(3000), [1.0 / 3.0; 3]), "{:?}", share(3000));
        assert!(near(share(1500), [2.0 / 3.0, 1.0 / 3.0, 0.0]), "{:?}", share(1500));
        assert_eq!(share(999)[1..], [0.0, 0.0]);
    }

    /// A colour-aware sliding window makes nothing better.
    #[test]
    fn sliding_window_keeps_worse_colours() {
        let meter = Meter::sliding_window(8e6, 16e6, 100 * MS, 1);
        assert_eq!(
            colours(meter, &[(0, 10, Yellow), (1, 10, Red), (2, 10, Green)]),
            [Yellow, Red, Green]
        );
    }
}
