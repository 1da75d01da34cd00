//! The receiving end: reports of arrivals (RFC 8888), frames from packets.

use std::collections::{BTreeMap, VecDeque};

use dumbbell_queue::Nanos;

use super::playout::{Completed, MediaRecord};
use super::transport::Settings;
use super::wire::{self, Part};
use crate::flow::{Arrival, Ends, FlowReceiver};
use crate::{Kind, Packet};

/// A report covers packets that arrived in this time, so that a lost one leaves no hole.
const OVERLAP: Nanos = 500_000_000;
/// Reports that a slow way back may hold.
const REPORTS_KEPT: usize = 256;
/// Frames that wait for packets; older ones are given up.
const FRAMES_KEPT: usize = 256;

pub(super) struct Receiver {
    ends: Ends,
    interval: Nanos,
    /// Of a second, in which reports tell arrivals.
    parts: u64,
    /// Packets that one report can cover.
    most: u64,
    /// Arrivals by number; all of those numbered from `begin` on.
    log: VecDeque<Arrival>,
    begin: u64,
    /// Arrivals that no report has told of.
    fresh: u64,
    report_at: Nanos,
    /// Newest last; the newest has the number `next_report - 1`.
    reports: VecDeque<Vec<Arrival>>,
    next_report: u64,
    pending: Option<Packet>,
    /// Packets still missing of frames that have begun to arrive.
    incomplete: BTreeMap<u32, u16>,
    record: MediaRecord,
    /// From capture to completion, of the last frame.
    frame_delay: Option<Nanos>,
    delivered: u64,
    duplicates: u64,
}

impl Receiver {
    pub(super) fn new(settings: &Settings, ends: &Ends) -> Self {
        Self {
            ends: *ends,
            interval: settings.feedback_interval,
            parts: settings.arrival_parts,
            most: wire::packets_in_report(settings.packet),
            log: VecDeque::new(),
            begin: 0,
            fresh: 0,
            report_at: Nanos::MAX,
            reports: VecDeque::new(),
            next_report: 0,
            pending: None,
            incomplete: BTreeMap::new(),
            record: MediaRecord::default(),
            frame_delay: None,
            delivered: 0,
            duplicates: 0,
        }
    }

    /// Whether this number is new; then it is in the log.
    fn note(&mut self, arrival: Arrival) -> bool {
        if arrival.seq < self.begin || arrival.seq == u64::MAX {
            return false;
        }
        // Nearly all are the newest.
        let at = match self.log.back() {
            Some(last) if last.seq >= arrival.seq => {
                self.log.partition_point(|a| a.seq < arrival.seq)
            }
            _ => self.log.len(),
        };
        if self.log.get(at).is_some_and(|other| other.seq == arrival.seq) {
            return false;
        }
        self.log.insert(at, arrival);
        true
    }

    fn on_part(&mut self, now: Nanos, part: Part, captured: Nanos) {
        let missing = match self.incomplete.remove(&part.frame) {
            Some(missing) => missing.saturating_sub(1),
            None => part.count.saturating_sub(1),
        };
        if missing == 0 {
            self.record.completed.push(Completed { number: part.frame, at: now });
            self.frame_delay = Some(now.saturating_sub(captured));
            return;
        }
        self.incomplete.insert(part.frame, missing);
        if self.incomplete.len() > FRAMES_KEPT {
            self.incomplete.pop_first();
        }
    }

    /// Forget arrivals that need not be reported again.
    fn trim(&mut self, now: Nanos) {
        let Some(newest) = self.log.back().map(|arrival| arrival.seq) else { return };
        while let Some(first) = self.log.front() {
            let recent = first.at.saturating_add(OVERLAP) >= now;
            if recent && newest - first.seq < self.most {
                return;
            }
            self.begin = first.seq + 1;
            self.log.pop_front();
        }
    }

    fn make_report(&mut self, now: Nanos) {
        self.trim(now);
        self.fresh = 0;
        let end = self.log.back().map_or(self.begin, |last| last.seq + 1);
        // Numbers below the first arrival that this report has no room for.
        let begin = self.begin.max(end.saturating_sub(self.most));
        let payload = wire::report_bytes(end - begin);
        let mut arrivals = match self.reports.len() {
            REPORTS_KEPT => self.reports.pop_front().unwrap_or_default(),
            _ => Vec::new(),
        };
        arrivals.clear();
        let told = |arrival: &Arrival| wire::reported(arrival.at, now, self.parts);
        arrivals.extend(self.log.iter().map(|a| Arrival { at: told(a), ..*a }));
        self.reports.push_back(arrivals);
        self.pending = Some(Packet {
            seq: self.next_report,
            aux: [begin, end, 0],
            ..self.ends.packet(Kind::Report, crate::flow::DATAGRAM_HEADER_BYTES, payload, now)
        });
        self.next_report += 1;
    }
}

impl FlowReceiver for Receiver {
    fn on_packet(&mut self, now: Nanos, packet: &Packet) {
        if !self.note(Arrival::of(now, packet)) {
            self.duplicates += 1;
            return;
        }
        self.delivered += u64::from(packet.payload);
        self.fresh += 1;
        let part = Part::of(packet);
        if part.count > 0 {
            self.on_part(now, part, packet.aux[2]);
        }
        if self.report_at == Nanos::MAX {
            self.report_at = now.saturating_add(self.interval);
        }
        // Two reports must cover each arrival, for one may be lost.
        if self.fresh >= (self.most / 2).max(1) {
            self.make_report(now);
        }
    }

    fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
        self.pending.take()
    }

    fn next_timeout(&self) -> Nanos {
        self.report_at
    }

    /// Reports stop when nothing arrives.
    fn on_timeout(&mut self, now: Nanos) {
        if now < self.report_at {
            return;
        }
        if self.fresh == 0 {
            self.report_at = Nanos::MAX;
            return;
        }
        self.report_at = now.saturating_add(self.interval);
        self.make_report(now);
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered
    }

    fn report(&self, packet: &Packet) -> &[Arrival] {
        let age = self.next_report.wrapping_sub(packet.seq);
        let index = (self.reports.len() as u64).checked_sub(age).filter(|_| age > 0);
        index.and_then(|index| self.reports.get(index as usize)).map_or(&[], Vec::as_slice)
    }

    fn media(&self) -> Option<&MediaRecord> {
        Some(&self.record)
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("frame_delay_ms", self.frame_delay.map_or(f64::NAN, |delay| delay as f64 / 1e6));
        out("frames_completed", self.record.completed.len() as f64);
        out("duplicates", self.duplicates as f64);
    }
}
