//! Which packets are lost, and which losses begin a loss event (RFC 5348 sections 5.1 and 5.2).

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

/// So many packets must arrive after a packet for it to be lost (NDUPACK).
const LATER: usize = 3;
/// Loss events that one hole can hold; the interval history has room for nine.
const MOST_EVENTS: u32 = 1024;

/// A packet with its time of arrival, measured or interpolated.
#[derive(Clone, Copy, Debug)]
struct Dated {
    seq: u64,
    /// Nanoseconds.
    at: f64,
}

/// Packets that have arrived since the last hole, and the last loss event.
#[derive(Debug, Default)]
pub(super) struct LossEvents {
    /// The last packet up to which all have arrived or are lost.
    last: Option<Dated>,
    /// Packets beyond the one that is missing, in order; fewer than [`LATER`] between calls.
    ahead: VecDeque<Dated>,
    /// First loss of the last event.
    event: Option<Dated>,
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
        let arrived = Dated { seq, at: now as f64 };
        let Some(last) = self.last else {
            self.last = Some(arrived);
            return;
        };
        let place = self.ahead.partition_point(|packet| packet.seq < seq);
        if seq <= last.seq || self.ahead.get(place).is_some_and(|packet| packet.seq == seq) {
            return;
        }
        self.ahead.insert(place, arrived);
        self.advance(rtt as f64, &mut begins);
        if marked && self.event.is_none_or(|event| arrived.at > event.at + rtt as f64) {
            self.event = Some(arrived);
            begins(seq);
        }
    }

    /// Take in packets that continue the order, and give up the hole before them if enough have come.
    fn advance(&mut self, rtt: f64, begins: &mut impl FnMut(u64)) {
        while let (Some(last), Some(&first)) = (self.last, self.ahead.front()) {
            if first.seq - last.seq > 1 {
                if self.ahead.len() < LATER {
                    break;
                }
                self.lose(last, first, rtt, begins);
            }
            self.last = Some(first);
            self.ahead.pop_front();
        }
    }

    /// All between two packets that have arrived are lost, at times between theirs.
    fn lose(&mut self, before: Dated, after: Dated, rtt: f64, begins: &mut impl FnMut(u64)) {
        let lost = after.seq - before.seq - 1;
        let step = (after.at - before.at).max(0.0) / (after.seq - before.seq) as f64;
        // Losses are counted from 1.
        let mut nth = 1;
        for _ in 0..MOST_EVENTS {
            if let Some(event) = self.event {
                let room = event.at + rtt - before.at;
                if room >= 0.0 {
                    // Those up to `room` after `before` belong to the last event.
                    nth = nth.max(((room / step) as u64).saturating_add(1));
                }
            }
            if nth > lost {
                break;
            }
            let seq = before.seq + nth;
            self.event = Some(Dated { seq, at: before.at + step * nth as f64 });
            begins(seq);
            nth += 1;
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

    /// Packet 2 is lost when 3, 4 and 5 have arrived, in any order; not when it is only late.
    #[test]
    fn three_later_packets() {
        assert_eq!(events(&[(1, 10), (3, 30), (4, 40), (5, 50)]), [(3, 2)]);
        assert_eq!(events(&[(1, 10), (5, 30), (3, 40), (3, 45), (4, 50)]), [(4, 2)]);
        assert_eq!(events(&[(1, 10), (3, 30), (4, 40), (2, 45), (5, 50), (6, 60)]), []);
        assert_eq!(events(&[(7, 10), (8, 30), (9, 40), (10, 50)]), [], "the first is the start");
    }

    /// 2 is lost at (interpolated) 20; a loss at 120 is still within a round trip of 100, one at 130 is
    /// not: of 3 .. 15 arriving each 10, 12 is lost at 120, or 13 at 130.
    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let without = |lost: u64| {
            let arrive = (1..20).filter(|&seq| seq != 2 && seq != lost);
            events(&arrive.map(|seq| (seq, 10 * seq)).collect::<Vec<_>>())
        };
        assert_eq!(without(12), [(3, 2)]);
        assert_eq!(without(13), [(3, 2), (13, 13)]);
    }

    /// A hole of 39 packets over 400: events begin at the packets nominally at 20, at 130, 240 and 350,
    /// the first that are more than a round trip after the one before.
    #[test]
    fn a_long_hole_holds_several_events() {
        let found = events(&[(1, 10), (41, 410), (42, 420), (43, 430)]);
        assert_eq!(found, [(3, 2), (3, 13), (3, 24), (3, 35)]);
    }

    /// A mark is an event at once, unless it is within a round trip of the last.
    #[test]
    fn marks() {
        let mut losses = LossEvents::default();
        let mut found = Vec::new();
        for (seq, at, marked) in [(1, 0, false), (2, 50, true), (3, 150, true), (4, 151, true)] {
            losses.on_packet(seq, at, RTT, marked, |first| found.push(first));
        }
        assert_eq!(found, [2, 4]);
    }
}
