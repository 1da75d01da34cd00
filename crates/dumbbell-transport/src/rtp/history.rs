//! What was sent and what reports say of it.

use std::collections::VecDeque;

use dumbbell_queue::{Ecn, Nanos};

use super::control::{PacketResult, ProbeTag};
use crate::flow::Arrival;

/// Packets older than this are forgotten.
const MEMORY: Nanos = 10_000_000_000;
/// Of a new round-trip time sample in the smoothed one (RFC 6298).
const GAIN: f64 = 0.125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    /// No longer counted as in flight, for want of feedback; a report may still cover it.
    Overdue,
    Known,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    bytes: u32,
    fate: Fate,
    probe: Option<ProbeTag>,
}

/// Packets sent, by transport-wide number.
pub(super) struct History {
    /// The first has number `base`.
    sent: VecDeque<Sent>,
    base: u64,
    in_flight: u64,
    /// Missing packets count as lost when so many later ones have arrived.
    reordering: u64,
    rtt: Option<Nanos>,
    srtt: Nanos,
    lost: u64,
}

impl History {
    pub(super) fn new(reordering: u64) -> Self {
        Self {
            sent: VecDeque::new(),
            base: 0,
            in_flight: 0,
            reordering,
            rtt: None,
            srtt: 0,
            lost: 0,
        }
    }

    /// Number of the next packet.
    pub(super) fn next_seq(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// IP bytes.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Newest sample.
    pub(super) fn rtt(&self) -> Option<Nanos> {
        self.rtt
    }

    /// Smoothed; 0 before the first sample.
    pub(super) fn srtt(&self) -> Nanos {
        self.srtt
    }

    /// Packets that reports have shown to be lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn on_sent(&mut self, now: Nanos, bytes: u32, probe: Option<ProbeTag>) {
        self.sent.push_back(Sent { at: now, bytes, fate: Fate::InFlight, probe });
        self.in_flight += u64::from(bytes);
        let old = |sent: &Sent| sent.fate == Fate::Known || sent.at.saturating_add(MEMORY) < now;
        while self.sent.front().is_some_and(old) {
            if let Some(sent) = self.sent.pop_front() {
                self.leave(&sent);
            }
            self.base += 1;
        }
    }

    /// A report of the packets numbered from `begin` to `end` (excluded), made at `made` by the
    /// receiver's clock. Adds what is new to `results`.
    pub(super) fn on_report(
        &mut self,
        now: Nanos,
        (begin, end): (u64, u64),
        made: Nanos,
        arrivals: &[Arrival],
        results: &mut Vec<PacketResult>,
    ) {
        let (begin, end) = (begin.max(self.base), end.min(self.next_seq()));
        let mut arrivals = arrivals.iter().skip_while(|arrival| arrival.seq < begin).peekable();
        let newest = end.saturating_sub(1);
        for seq in begin..end {
            while arrivals.next_if(|arrival| arrival.seq < seq).is_some() {}
            let arrival = arrivals.next_if(|arrival| arrival.seq == seq).copied();
            let at = (seq - self.base) as usize;
            let Some(&sent) = self.sent.get(at) else { break };
            if sent.fate == Fate::Known || arrival.is_none() && newest - seq < self.reordering {
                continue;
            }
            self.leave(&sent);
            self.sent[at].fate = Fate::Known;
            self.lost += u64::from(arrival.is_none());
            if let Some(arrival) = arrival
                && sent.at <= now
            {
                // What the receiver held it back is not of the path.
                let held = made.saturating_sub(arrival.at);
                self.rtt = Some((now - sent.at).saturating_sub(held).max(1));
            }
            results.push(PacketResult {
                seq,
                sent: sent.at,
                bytes: sent.bytes,
                arrival: arrival.map(|arrival| arrival.at),
                ecn: arrival.map_or(Ecn::NotEct, |arrival| arrival.ecn),
                probe: sent.probe,
            });
        }
        if results.iter().any(|result| result.arrival.is_some())
            && let Some(rtt) = self.rtt
        {
            self.srtt = match self.srtt {
                0 => rtt,
                old => (old as f64 + GAIN * (rtt as f64 - old as f64)) as Nanos,
            };
        }
    }

    /// No feedback for too long: nothing counts as in flight any more.
    pub(super) fn on_timeout(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::InFlight {
                sent.fate = Fate::Overdue;
            }
        }
        self.in_flight = 0;
    }

    fn leave(&mut self, sent: &Sent) {
        if sent.fate == Fate::InFlight {
            self.in_flight -= u64::from(sent.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(seq: u64, at: Nanos) -> Arrival {
        Arrival { seq, at, ecn: Ecn::NotEct }
    }

    fn sent(count: u64) -> History {
        let mut history = History::new(3);
        (0..count).for_each(|i| history.on_sent(i * 10, 1000, None));
        history
    }

    fn report(
        history: &mut History,
        range: (u64, u64),
        arrivals: &[Arrival],
    ) -> Vec<(u64, Option<Nanos>)> {
        let mut results = Vec::new();
        history.on_report(1000, range, 500, arrivals, &mut results);
        results.iter().map(|result| (result.seq, result.arrival)).collect()
    }

    /// Packets 0 to 5 sent, 1 and 4 missing: 1 has four later arrivals and is lost, 4 has one and may be
    /// late; the next report brings it. What a report repeats is not news.
    #[test]
    fn results_come_once() {
        let mut history = sent(8);
        assert_eq!(history.in_flight(), 8000);
        let first = [arrival(0, 100), arrival(2, 120), arrival(3, 130), arrival(5, 150)];
        let news = report(&mut history, (0, 6), &first);
        assert_eq!(
            news,
            [(0, Some(100)), (1, None), (2, Some(120)), (3, Some(130)), (5, Some(150))]
        );
        assert_eq!(history.in_flight(), 3000);
        // Sent at 50, held back from 150 to 500, back at 1000.
        assert_eq!(history.rtt(), Some(1000 - 50 - 350));
        assert_eq!(history.srtt(), 600);
        let second: Vec<_> = (0..8).filter(|&seq| seq != 1).map(|seq| arrival(seq, 160)).collect();
        let news = report(&mut history, (0, 8), &second);
        assert_eq!(news, [(4, Some(160)), (6, Some(160)), (7, Some(160))]);
        assert_eq!((history.in_flight(), history.lost()), (0, 1));
        assert_eq!(report(&mut history, (0, 8), &second), []);
    }

    /// A report never covers packets before its range: those stay unknown, and are forgotten after 10 s.
    #[test]
    fn unreported_packets_are_forgotten() {
        let mut history = sent(4);
        report(&mut history, (2, 4), &[arrival(2, 100), arrival(3, 100)]);
        assert_eq!(history.in_flight(), 2000);
        history.on_sent(11_000_000_000, 500, None);
        assert_eq!((history.in_flight(), history.next_seq(), history.lost()), (500, 5, 0));
    }

    /// After a timeout the window is free again; a late report still tells what became of packets.
    #[test]
    fn timeout_frees_the_window() {
        let mut history = sent(4);
        history.on_timeout();
        assert_eq!(history.in_flight(), 0);
        let all: Vec<_> = (0..4).map(|seq| arrival(seq, 100)).collect();
        assert_eq!(report(&mut history, (0, 4), &all).len(), 4);
        assert_eq!(history.in_flight(), 0);
    }
}
