//! Which packets are lost, and which losses begin a loss event (RFC 5348 sections 5.1 and 5.2).

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

/// So many packets must arrive after a packet for it to be lost (NDUPACK).
const LATER: usize = 3;
/// Loss events that one hole can hold; the interval history has room for nine.
const MOST_EVENTS: u32 = 1024;

/// A packet with its time of arrival.
#[derive(Clone, Copy, Debug)]
struct Dated {
    seq: u64,
    /// Nanoseconds.
    at: f64,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    packet: Dated,
    /// The packet that arrived before it.
    before: Option<Dated>,
    /// How many arrived before it.
    nth: u64,
}

/// Packets that have arrived since the last hole, and the last loss event. Packets are numbered from 0.
#[derive(Debug, Default)]
pub(super) struct LossEvents {
    /// All below it have arrived or are lost.
    next: u64,
    /// Packets beyond the one that is missing, by number; fewer than [`LATER`] between calls.
    ahead: VecDeque<Arrival>,
    /// The last packet that arrived.
    newest: Option<Dated>,
    arrived: u64,
    /// When the first loss of the last event would have arrived.
    event: Option<f64>,
}

impl LossEvents {
    /// Packet `seq` has arrived, marked or not, and the sender's round-trip time is `rtt`. `begins` is
    /// called with the first lost packet of each new loss event.
    pub(super) fn on_packet(
        &mut self,
        seq: u64,
        now: Nanos,
        rtt: Nanos,
        marked: bool,
        mut begins: impl FnMut(u64),
    ) {
        let (at, rtt) = (now as f64, rtt as f64);
        let place = self.ahead.partition_point(|arrival| arrival.packet.seq < seq);
        if seq < self.next || self.ahead.get(place).is_some_and(|other| other.packet.seq == seq) {
            return;
        }
        let packet = Dated { seq, at };
        self.ahead.insert(place, Arrival { packet, before: self.newest, nth: self.arrived });
        self.newest = Some(packet);
        self.arrived += 1;
        self.advance(rtt, &mut begins);
        if marked && self.event.is_none_or(|event| at > event + rtt) {
            self.event = Some(at);
            begins(seq);
        }
    }

    /// Take in packets that continue the order, and give up the hole before them if enough have come.
    fn advance(&mut self, rtt: f64, begins: &mut impl FnMut(u64)) {
        while let Some(Arrival { packet: Dated { seq, .. }, .. }) = self.ahead.front().copied() {
            if seq > self.next {
                if self.ahead.len() < LATER {
                    break;
                }
                self.lose(seq, rtt, begins);
            }
            self.next = seq.saturating_add(1);
            self.ahead.pop_front();
        }
    }

    /// All up to packet `end` are lost. Their times are between that of the first packet beyond them to
    /// arrive and that of the one before it; those of the first packets of all are that of the first to
    /// arrive.
    fn lose(&mut self, end: u64, rtt: f64, begins: &mut impl FnMut(u64)) {
        let Some(after) = self.ahead.iter().min_by_key(|arrival| arrival.nth) else { return };
        let (before, step) = match after.before {
            Some(before) => {
                let packets = after.packet.seq.saturating_sub(before.seq).max(1);
                (before, (after.packet.at - before.at).max(0.0) / packets as f64)
            }
            None => (Dated { seq: self.next, at: after.packet.at }, 0.0),
        };
        let mut seq = self.next;
        for _ in 0..MOST_EVENTS {
            if let Some(event) = self.event {
                let room = event + rtt - before.at;
                if room >= 0.0 {
                    // Those up to `room` after `before` belong to the last event.
                    let within = if step > 0.0 { (room / step) as u64 } else { u64::MAX };
                    seq = seq.max(before.seq.saturating_add(within).saturating_add(1));
                }
            }
            if seq >= end {
                break;
            }
            self.event = Some(before.at + step * seq.saturating_sub(before.seq) as f64);
            begins(seq);
            seq += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = 100;

    fn events(arrivals: &[(u64, Nanos)]) -> Vec<(usize, u64)> {
        let mut losses = LossEvents::default();
        let mut found = Vec::new();
        for (index, &(seq, at)) in arrivals.iter().enumerate() {
            losses.on_packet(seq, at, RTT, false, |first| found.push((index, first)));
        }
        found
    }

    /// Packet 1 is lost when 2, 3 and 4 have arrived, in any order; not when it is only late.
    #[test]
    fn three_later_packets() {
        assert_eq!(events(&[(0, 10), (2, 30), (3, 40), (4, 50)]), [(3, 1)]);
        assert_eq!(events(&[(0, 10), (4, 30), (2, 40), (2, 45), (3, 50)]), [(4, 1)]);
        assert_eq!(events(&[(0, 10), (2, 30), (3, 40), (1, 45), (4, 50), (5, 60)]), []);
    }

    /// The first packets of a flow are lost together, at the time at which the first one arrives.
    #[test]
    fn the_first_packets() {
        assert_eq!(events(&[(7, 10), (8, 30), (9, 40), (10, 50)]), [(2, 0)]);
        assert_eq!(events(&[(7, 10), (9, 30), (10, 110), (11, 130)]), [(2, 0)], "8 at 20, by 110");
        assert_eq!(
            events(&[(7, 10), (9, 220), (10, 230), (11, 240)]),
            [(2, 0), (3, 8)],
            "8 at 115"
        );
    }

    /// 1 is lost at (interpolated) 20; a loss at 120 is still within a round trip of 100, one at 130 is
    /// not: of 2 .. 14 arriving each 10, 11 is lost at 120, or 12 at 130.
    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let without = |lost: u64| {
            let arrive = (0..20).filter(|&seq| seq != 1 && seq != lost);
            events(&arrive.map(|seq| (seq, 10 * (seq + 1))).collect::<Vec<_>>())
        };
        assert_eq!(without(11), [(3, 1)]);
        assert_eq!(without(12), [(3, 1), (13, 12)]);
    }

    /// A hole of 39 packets over 400: events begin at the packets nominally at 20, at 130, 240 and 350,
    /// the first that are more than a round trip after the one before.
    #[test]
    fn a_long_hole_holds_several_events() {
        let found = events(&[(0, 10), (40, 410), (41, 420), (42, 430)]);
        assert_eq!(found, [(3, 1), (3, 12), (3, 23), (3, 34)]);
    }

    /// T_loss = T_before + (T_after - T_before) (S_loss - S_before) / (S_after - S_before), where S_after
    /// is the first packet beyond the loss to arrive, whatever its number, and S_before the one that
    /// arrived before it. Packet 1 was at 20. Of 10, missing, 12 arrives at 122, 11 at 150: with 9 at 110,
    /// 10 was at 116, in the same event; between 9 and 11 it would be at 130, in another. And where 9
    /// comes after 12, at 123, it is 8 at 100 and 12 at 124: 112.
    #[test]
    fn reordered_packets_date_a_loss_by_the_first_to_arrive() {
        let start = [(0, 10), (2, 30), (3, 40), (4, 50), (5, 60), (6, 70), (7, 80), (8, 100)];
        let then = |more: &[(u64, Nanos)]| events(&[&start[..], more].concat());
        assert_eq!(then(&[(9, 110), (12, 122), (11, 150), (13, 160)]), [(3, 1)]);
        assert_eq!(then(&[(9, 110), (11, 150), (12, 151), (13, 160)]), [(3, 1), (11, 10)]);
        assert_eq!(then(&[(12, 124), (9, 125), (11, 150), (13, 160)]), [(3, 1)]);
    }

    /// A mark is an event at once, unless it is within a round trip of the last.
    #[test]
    fn marks() {
        let mut losses = LossEvents::default();
        let mut found = Vec::new();
        for (seq, at, marked) in [(0, 0, false), (1, 50, true), (2, 150, true), (3, 151, true)] {
            losses.on_packet(seq, at, RTT, marked, |first| found.push(first));
        }
        assert_eq!(found, [1, 3]);
    }
}
