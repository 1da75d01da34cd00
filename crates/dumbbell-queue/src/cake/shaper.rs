//! What a packet costs on the link, and when the next may leave: virtual clocks that packets advance
//! by their time at a rate. No tokens are saved up, so there is no burst.

use crate::params::{ParamInfo, Unit, Values};
use crate::{Nanos, Packet};

const BITS_NANOS: u64 = 8_000_000_000;

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u64);

impl Rate {
    pub(crate) fn time(self, bytes: u64) -> Nanos {
        bytes * BITS_NANOS / self.0
    }
}

/// Link layers that carry packets in cells or coded blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cells {
    None,
    /// 48 bytes of payload in cells of 53.
    Atm,
    /// A byte more for each 64 bytes or part of them (64b/65b coding, rounded up as in Linux).
    Ptm,
}

/// Bytes that a packet takes on the link behind the shaper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    /// In addition to the IP packet; `None` for the size that the engine's link counts.
    overhead: Option<u32>,
    mpu: u32,
    cells: Cells,
}

impl Framing {
    pub(crate) fn info() -> [ParamInfo; 3] {
        [
            ParamInfo::new(
                "overhead",
                Unit::Bytes,
                serde_json::Value::Null,
                "Framing of an IP packet on the link; where not given, that of the engine's link",
            )
            .at_most(256.0),
            ParamInfo::new("mpu", Unit::Bytes, 0, "Least size of a packet with its framing")
                .at_most(256.0),
            ParamInfo::choice(
                "cells",
                &["noatm", "atm", "ptm"],
                "Cells of 48 in 53 bytes (ADSL), or a byte more for 64 (VDSL)",
            ),
        ]
    }

    pub(crate) fn from_values(values: &Values) -> Self {
        Self {
            overhead: values.optional("overhead").map(|bytes| bytes as u32),
            mpu: values.whole("mpu") as u32,
            cells: match values.choice("cells") {
                "atm" => Cells::Atm,
                "ptm" => Cells::Ptm,
                _ => Cells::None,
            },
        }
    }

    pub(crate) fn bytes(&self, packet: &impl Packet) -> u64 {
        let bytes = self.overhead.map_or(packet.bytes(), |more| packet.ip_bytes() + more);
        let bytes = u64::from(bytes.max(self.mpu));
        match self.cells {
            Cells::None => bytes,
            Cells::Atm => bytes.div_ceil(48) * 53,
            Cells::Ptm => bytes + bytes.div_ceil(64),
        }
    }
}

/// The clock of all packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shaper {
    rate: Option<Rate>,
    next: Nanos,
    /// Advances at two thirds of the rate, and only for packets that were sent: where dropped ones are
    /// charged too, it keeps drops from stopping the queue.
    failsafe: Nanos,
}

impl Shaper {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Self { rate, next: 0, failsafe: 0 }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// The time to wait for, if there is one.
    pub(crate) fn wait(&self, now: Nanos) -> Option<Nanos> {
        let until = self.next.min(self.failsafe);
        (until > now).then_some(until)
    }

    /// The first packet of a busy time comes: time that went by unused is lost.
    pub(crate) fn restart(&mut self, now: Nanos) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }

    pub(crate) fn charge(&mut self, bytes: u64, sent: bool) {
        if let Some(rate) = self.rate {
            let time = rate.time(bytes);
            self.next += time;
            if sent {
                self.failsafe += time + time / 2;
            }
        }
    }
}

/// The clock of a tin, which tells whether the tin is under its threshold rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TinClock {
    rate: Option<Rate>,
    next: Nanos,
}

impl TinClock {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Self { rate, next: 0 }
    }

    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    pub(crate) fn restart(&mut self, now: Nanos) {
        self.next = self.next.max(now);
    }

    /// It may run behind, so that a tin catches up, but never more than one packet ahead.
    pub(crate) fn charge(&mut self, now: Nanos, bytes: u64) {
        if let Some(rate) = self.rate {
            let time = rate.time(bytes);
            if self.next < now {
                self.next += time;
            } else if self.next < now + time {
                self.next = now + time;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaps while a tin is behind, in time, and ahead.
    #[test]
    fn a_tin_catches_up_and_never_runs_more_than_a_packet_ahead() {
        let mut clock = TinClock::new(Some(Rate(8_000_000)));
        clock.restart(1_000_000);
        clock.charge(4_000_000, 1000);
        assert_eq!(clock.next(), 2_000_000);
        clock.charge(2_000_000, 1000);
        assert_eq!(clock.next(), 3_000_000);
        clock.charge(2_500_000, 1000);
        assert_eq!(clock.next(), 3_500_000);
        clock.charge(2_500_000, 1000);
        assert_eq!(clock.next(), 3_500_000);
    }

    /// Drops alone stop the main clock, not the failsafe; sending alone, the main clock rules.
    #[test]
    fn drops_cannot_stop_the_shaper() {
        let mut shaper = Shaper::new(Some(Rate(8_000_000)));
        shaper.charge(1000, true);
        assert_eq!(shaper.wait(0), Some(1_000_000));
        shaper.charge(1000, false);
        assert_eq!(shaper.wait(0), Some(1_500_000));
        assert_eq!(shaper.wait(1_500_000), None);
    }
}
