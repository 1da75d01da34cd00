//! The tins: which DSCP goes to which, and what each may have of the bandwidth (tc-cake, "Priority queue
//! parameters"; Linux sch_cake).

use super::shaper::Rate;
use crate::Nanos;
use crate::cobalt::{BLUE_DECREMENT, BLUE_INCREMENT, CobaltParams, Sce};

/// A full Ethernet frame, as Linux counts it.
const MTU: u64 = 1514;
/// Bounds of the bytes that a flow sends in its turn.
const QUANTUM: (u64, u64) = (300, MTU);

/// How DSCPs are mapped to tins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diffserv {
    Besteffort,
    Precedence,
    Diffserv3,
    Diffserv4,
    Diffserv8,
}

/// What a tin may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Up to this rate a tin goes before those with a lower number.
    pub(crate) rate: Option<Rate>,
    /// Bytes in a round, where there is no rate.
    pub(crate) weight: i64,
}

impl Diffserv {
    pub(crate) const NAMES: [&str; 5] =
        ["diffserv3", "besteffort", "precedence", "diffserv4", "diffserv8"];

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "besteffort" => Self::Besteffort,
            "precedence" => Self::Precedence,
            "diffserv4" => Self::Diffserv4,
            "diffserv8" => Self::Diffserv8,
            _ => Self::Diffserv3,
        }
    }

    pub(crate) fn shares(self, rate: Option<Rate>) -> Vec<Share> {
        let part = |divisor: u64| Share {
            rate: rate.map(|rate| Rate((rate.0 / divisor).max(1))),
            weight: (1024 / divisor) as i64,
        };
        match self {
            Self::Besteffort => vec![Share { rate, weight: 65_535 }],
            Self::Diffserv3 => vec![part(1), part(16), part(4)],
            Self::Diffserv4 => vec![part(1), part(16), part(2), part(4)],
            Self::Precedence | Self::Diffserv8 => {
                // Each has 7/8 of the one before, in whole numbers.
                let first = Share { rate, weight: 256 };
                let next = |share: &Share| {
                    let rate = share.rate.map(|rate| Rate((rate.0 * 7 / 8).max(1)));
                    Some(Share { rate, weight: share.weight * 7 / 8 })
                };
                std::iter::successors(Some(first), next).take(8).collect()
            }
        }
    }

    /// Tin of a DSCP. With three or four tins, tin 0 is best effort and tin 1 bulk, and from there on
    /// the number rises with the priority; with eight, it does from the first.
    pub(crate) fn tin(self, dscp: u8) -> usize {
        match self {
            Self::Besteffort => 0,
            Self::Precedence => usize::from(dscp >> 3) % 8,
            Self::Diffserv3 => match dscp {
                1 | 8 => 1,                 // LE, CS1
                4 | 44 | 46 | 48 | 56 => 2, // minimum delay, VA, EF, CS6, CS7
                _ => 0,
            },
            Self::Diffserv4 => match dscp {
                1 | 8 => 1,
                4 | 16 | 24 => 2, // minimum delay, CS2, CS3
                18 | 20 | 22 | 26 | 28 | 30 | 34 | 36 | 38 => 2, // AF2x, AF3x, AF4x
                32 | 40 | 44 | 46 | 48 | 56 => 3, // CS4, CS5, VA, EF, CS6, CS7
                _ => 0,
            },
            Self::Diffserv8 => match dscp {
                1 | 8 => 0,                            // LE, CS1: background
                2 | 10 | 12 | 14 => 1,                 // high throughput, AF1x
                24 | 26 | 28 | 30 | 34 | 36 | 38 => 3, // CS3, AF3x, AF4x: video
                4 | 18 | 20 | 22 => 4,                 // minimum delay, AF2x: transactions
                16 => 5,                               // CS2: shells
                32 | 40 | 44 | 46 => 6,                // CS4, CS5, VA, EF: least delay
                48 | 56 => 7,                          // CS6, CS7: network control
                _ => 2,
            },
        }
    }
}

impl Share {
    /// Bytes of a flow's turn: what the tin sends in 1/4096 s.
    pub(crate) fn quantum(self) -> i64 {
        let (least, most) = QUANTUM;
        self.rate.map_or(most, |rate| (rate.0 / 8 / 4096).clamp(least, most)) as i64
    }

    /// COBALT's settings at the tin's rate: a slow tin has a target of 1.5 packets, and an interval
    /// longer by as much.
    pub(crate) fn cobalt(self, rtt: Nanos, sce: Sce) -> CobaltParams {
        // tc sets the target to a twentieth of the round-trip time.
        let base_target = (rtt / 20).max(1);
        let mtu_time = self.rate.map_or(0, |rate| rate.time(MTU));
        let target = base_target.max(mtu_time * 3 / 2);
        CobaltParams {
            target,
            interval: (rtt + target - base_target).max(2 * target),
            mtu_time,
            ecn: true,
            blue_increment: BLUE_INCREMENT,
            blue_decrement: BLUE_DECREMENT,
            blue_threshold: Nanos::MAX,
            sce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    fn rates(diffserv: Diffserv, rate: u64) -> Vec<u64> {
        let shares = diffserv.shares(Some(Rate(rate)));
        shares.iter().filter_map(|share| share.rate).map(|rate| rate.0).collect()
    }

    fn weights(diffserv: Diffserv) -> Vec<i64> {
        diffserv.shares(None).iter().map(|share| share.weight).collect()
    }

    /// tc-cake: thresholds of 100, 1/16, 1/2 and 1/4 of the bandwidth; or 7/8 of the one before.
    #[test]
    fn tins_have_the_thresholds_and_weights_of_cake() {
        assert_eq!(rates(Diffserv::Besteffort, 16 * MBIT), [16 * MBIT]);
        assert_eq!(rates(Diffserv::Diffserv3, 16 * MBIT), [16 * MBIT, MBIT, 4 * MBIT]);
        assert_eq!(rates(Diffserv::Diffserv4, 16 * MBIT), [16 * MBIT, MBIT, 8 * MBIT, 4 * MBIT]);
        assert_eq!(weights(Diffserv::Diffserv3), [1024, 64, 256]);
        assert_eq!(weights(Diffserv::Diffserv4), [1024, 64, 512, 256]);
        // 8^7 bit/s times (7/8)^i.
        let eight =
            [2_097_152, 1_835_008, 1_605_632, 1_404_928, 1_229_312, 1_075_648, 941_192, 823_543];
        for diffserv in [Diffserv::Precedence, Diffserv::Diffserv8] {
            assert_eq!(rates(diffserv, 2_097_152), eight);
            assert_eq!(weights(diffserv), [256, 224, 196, 171, 149, 130, 113, 98]);
        }
    }

    /// Per tin at 1 Mbit/s: a frame takes 12.112 ms, the target is 1.5 of it, 18.168 ms, and the interval
    /// 100 + 18.168 - 5 ms; at 100 kbit/s twice the target is more. At 50 Mbit/s and 5 Gbit/s the
    /// defaults; the quantum is the tin's bytes in 1/4096 s, from 300 to 1514.
    #[test]
    fn targets_intervals_and_quanta_follow_the_rate() {
        let of = |rate| {
            let share = Share { rate, weight: 1 };
            let p = share.cobalt(100_000_000, Sce::Off);
            (p.mtu_time, p.target, p.interval, share.quantum())
        };
        assert_eq!(of(Some(Rate(MBIT))), (12_112_000, 18_168_000, 113_168_000, 300));
        assert_eq!(of(Some(Rate(MBIT / 10))), (121_120_000, 181_680_000, 363_360_000, 300));
        assert_eq!(of(Some(Rate(20 * MBIT))), (605_600, 5_000_000, 100_000_000, 610));
        assert_eq!(of(Some(Rate(50 * MBIT))), (242_240, 5_000_000, 100_000_000, 1514));
        assert_eq!(of(None), (0, 5_000_000, 100_000_000, 1514));
    }

    /// DSCPs by tin as tc-cake lists them; all others are best effort.
    #[test]
    fn dscps_go_to_the_tins_that_the_manual_lists() {
        let dscps_of = |diffserv: Diffserv, tin| (0..64).filter(move |&d| diffserv.tin(d) == tin);
        let lists = |diffserv, tin, expected: &[u8]| {
            assert!(dscps_of(diffserv, tin).eq(expected.iter().copied()), "{diffserv:?} {tin}");
        };
        lists(Diffserv::Diffserv3, 1, &[1, 8]);
        lists(Diffserv::Diffserv3, 2, &[4, 44, 46, 48, 56]);
        lists(Diffserv::Diffserv4, 1, &[1, 8]);
        lists(Diffserv::Diffserv4, 2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]);
        lists(Diffserv::Diffserv4, 3, &[32, 40, 44, 46, 48, 56]);
        lists(Diffserv::Diffserv8, 0, &[1, 8]);
        lists(Diffserv::Diffserv8, 1, &[2, 10, 12, 14]);
        lists(Diffserv::Diffserv8, 3, &[24, 26, 28, 30, 34, 36, 38]);
        lists(Diffserv::Diffserv8, 4, &[4, 18, 20, 22]);
        lists(Diffserv::Diffserv8, 5, &[16]);
        lists(Diffserv::Diffserv8, 6, &[32, 40, 44, 46]);
        lists(Diffserv::Diffserv8, 7, &[48, 56]);
        for dscp in 0..64 {
            assert_eq!(Diffserv::Precedence.tin(dscp), usize::from(dscp / 8));
            assert_eq!(Diffserv::Besteffort.tin(dscp), 0);
        }
    }
}
