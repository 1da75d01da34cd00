//! The sending end: encoder, queue, pacer, and the controller behind them.

use std::collections::VecDeque;
use std::sync::Arc;

use dumbbell_queue::Nanos;

use super::SECOND;
use super::control::{Feedback, MediaController, PacketResult, Probe, ProbeTag};
use super::history::History;
use super::playout::Captured;
use super::source::{Source, SourceConfig};
use super::transport::Settings;
use super::wire::{HEADER_BYTES, Part};
use crate::flow::{Arrival, Calculated, Coupled, Ends, FlowSender, Snapshot};
use crate::tcp::SenderStats;
use crate::{Kind, Packet};

/// What the pacer sends at least, whatever the controller says: bits per second.
const LEAST_RATE: f64 = 1000.0;
/// A full queue is emptied this often at most.
const DISCARD_PERIOD: Nanos = SECOND;
/// Frames that should have been captured earlier than this before now are not.
const LATEST_FRAME: Nanos = SECOND;
/// Packets that wait; an encoder that outruns the pacer this far loses its frames.
const LONGEST_QUEUE: usize = 1 << 20;

/// A probe that is later than this is given up (libwebrtc: 10 ms).
const LATEST_PROBE: Nanos = 10_000_000;
/// Packets of a probe at most.
const LONGEST_PROBE: u32 = 10_000;

/// A packet that waits for the pacer.
#[derive(Clone, Copy, Debug)]
struct Queued {
    part: Part,
    payload: u16,
    captured: Nanos,
}

/// A probe that is being sent.
#[derive(Clone, Copy, Debug)]
struct Probing {
    probe: Probe,
    began: Nanos,
    packets: u32,
    bytes: u64,
}

impl Probing {
    fn new(probe: Probe, began: Nanos) -> Self {
        Self { probe, began, packets: 0, bytes: 0 }
    }

    fn next_at(&self) -> Nanos {
        let rate = self.probe.rate.max(LEAST_RATE);
        let past = self.bytes as f64 * 8.0 * SECOND as f64 / rate;
        self.began.saturating_add(past as Nanos)
    }

    fn is_over(&self) -> bool {
        self.packets >= LONGEST_PROBE
            || self.packets >= self.probe.packets && self.bytes >= self.probe.bytes
    }

    /// The driver stood still: sending all that is due at once would measure nothing.
    fn is_late(&self, now: Nanos) -> bool {
        now.saturating_sub(self.next_at()) > LATEST_PROBE
    }
}

pub(super) struct Sender {
    ends: Ends,
    settings: Settings,
    config: Arc<SourceConfig>,
    /// From the start on.
    source: Option<Source>,
    controller: Box<dyn MediaController>,
    queue: VecDeque<Queued>,
    /// IP bytes in the queue.
    queued: u64,
    captured: Vec<Captured>,
    history: History,
    results: Vec<PacketResult>,
    /// When the last packet left, and its IP bytes.
    last_sent: Option<(Nanos, u32)>,
    probing: Option<Probing>,
    /// When the controller is told that no feedback comes; `MAX` while nothing is in flight.
    give_up_at: Nanos,
    last_discard: Option<Nanos>,
    discarded_frames: u64,
    stats: SenderStats,
}

impl Sender {
    pub(super) fn new(
        settings: &Settings,
        config: Arc<SourceConfig>,
        controller: Box<dyn MediaController>,
        ends: &Ends,
    ) -> Self {
        Self {
            ends: *ends,
            settings: *settings,
            config,
            source: None,
            controller,
            queue: VecDeque::new(),
            queued: 0,
            captured: Vec::new(),
            history: History::new(settings.reordering),
            results: Vec::new(),
            last_sent: None,
            probing: None,
            give_up_at: Nanos::MAX,
            last_discard: None,
            discarded_frames: 0,
            stats: SenderStats::default(),
        }
    }

    /// Media bits per second that make a rate of IP packets: each frame is cut into packets with
    /// headers.
    fn media_rate(&self, rate: f64, interval: Nanos) -> f64 {
        let frame = rate * interval as f64 / (8.0 * SECOND as f64);
        let packets = (frame / f64::from(self.settings.packet)).ceil();
        (frame - packets * f64::from(HEADER_BYTES)).max(0.0) * 8.0 * SECOND as f64 / interval as f64
    }

    /// IP bits per second of frames that make a rate of media.
    fn ip_rate(&self, rate: f64, interval: Nanos) -> f64 {
        let frame = rate * interval as f64 / (8.0 * SECOND as f64);
        let packets = (frame / f64::from(self.settings.packet - HEADER_BYTES)).ceil();
        (frame + packets * f64::from(HEADER_BYTES)) * 8.0 * SECOND as f64 / interval as f64
    }

    fn capture(&mut self, now: Nanos) {
        if self.queue_delay(now) > self.max_queue_delay()
            && self.last_discard.is_none_or(|at| now.saturating_sub(at) >= DISCARD_PERIOD)
        {
            self.last_discard = Some(now);
            self.discard();
            if let Some(source) = &mut self.source {
                source.force_key_frame();
            }
        }
        let target = self.controller.target_rate();
        let Some(interval) = self.source.as_ref().map(Source::mean_interval) else { return };
        let target = if target.is_finite() { self.media_rate(target, interval) } else { target };
        let Some(source) = &mut self.source else { return };
        let frame = source.capture(target);
        let number = self.captured.len() as u32;
        self.captured.push(Captured { at: now, bytes: frame.bytes, resumed: frame.resumed });
        let most = u32::from(self.settings.packet - HEADER_BYTES);
        let count = frame.bytes.div_ceil(most).min(u32::from(u16::MAX)) as u16;
        let mut left = frame.bytes;
        for index in 0..count {
            if self.queue.len() == LONGEST_QUEUE {
                break;
            }
            let payload = left.min(most) as u16;
            left -= u32::from(payload);
            let part = Part { frame: number, count, index };
            self.queue.push_back(Queued { part, payload, captured: now });
            self.queued += u64::from(payload + HEADER_BYTES);
        }
    }

    /// Forget all that waits.
    fn discard(&mut self) {
        let mut last = None;
        for queued in self.queue.drain(..) {
            if last != Some(queued.part.frame) {
                self.discarded_frames += 1;
            }
            last = Some(queued.part.frame);
        }
        self.queued = 0;
    }

    fn max_queue_delay(&self) -> Nanos {
        match self.settings.max_queue_delay {
            0 => self.controller.max_queue_delay().unwrap_or(Nanos::MAX),
            set => set,
        }
    }

    /// IP bytes in the queue of frames before the newest.
    fn backlog(&self) -> u64 {
        let newest = self.captured.len().saturating_sub(1) as u32;
        let of_newest = self.queue.iter().rev().take_while(|queued| queued.part.frame == newest);
        self.queued - of_newest.map(|q| u64::from(q.payload + HEADER_BYTES)).sum::<u64>()
    }

    /// How long the first packet has waited.
    fn queue_delay(&self, now: Nanos) -> Nanos {
        self.queue.front().map_or(0, |first| now.saturating_sub(first.captured))
    }

    /// When the pacer lets the next packet go; `MAX`: none waits, or the window is full.
    fn paced_at(&self) -> Nanos {
        if let Some(probing) = &self.probing {
            return probing.next_at();
        }
        let Some(first) = self.queue.front() else { return Nanos::MAX };
        let in_flight = self.history.in_flight();
        let after = in_flight + u64::from(first.payload + HEADER_BYTES);
        if in_flight > 0 && self.controller.window().is_some_and(|window| after > window) {
            return Nanos::MAX;
        }
        let Some((at, bytes)) = self.last_sent else { return 0 };
        let rate = self.controller.send_rate().max(LEAST_RATE);
        at.saturating_add((f64::from(bytes) * 8.0 * SECOND as f64 / rate) as Nanos)
    }

    /// A probe begins with media, not in a pause.
    fn maybe_probe(&mut self, now: Nanos) {
        if self.probing.is_none()
            && !self.queue.is_empty()
            && let Some(probe) = self.controller.take_probe(now)
        {
            self.probing = Some(Probing::new(probe, now));
        }
    }

    /// Media if any wait, or padding of a probe.
    fn next_packet(&mut self, now: Nanos) -> Option<Packet> {
        let (part, captured, headers, payload) = match self.queue.pop_front() {
            Some(Queued { part, payload, captured }) => {
                self.queued -= u64::from(payload + HEADER_BYTES);
                (part, captured, HEADER_BYTES, payload)
            }
            None => {
                // A packet has at least its headers; padding is no payload.
                let least = u64::from(HEADER_BYTES) + 1;
                let bytes = self.probing?.probe.packet_bytes;
                let bytes = bytes.clamp(least, u64::from(self.settings.packet)) as u16;
                (Part::PADDING, 0, bytes, 0)
            }
        };
        let mut packet = Packet {
            seq: self.history.next_seq(),
            aux: [part.word(), 0, captured],
            ..self.ends.packet(Kind::Payload, headers, payload, now)
        };
        packet.set_ecn(self.settings.ecn);
        Some(packet)
    }

    /// Count a packet of the probe that is under way.
    fn tag(&mut self, now: Nanos, bytes: u32) -> Option<ProbeTag> {
        let probing = self.probing.as_mut()?;
        probing.packets += 1;
        probing.bytes += u64::from(bytes);
        let probe = probing.probe;
        if probing.is_over() {
            let began = probing.next_at();
            self.probing = self.controller.take_probe(now).map(|probe| Probing::new(probe, began));
        }
        Some(ProbeTag { cluster: probe.cluster, bytes: probe.bytes })
    }

    fn feedback_timeout(&self) -> Nanos {
        self.settings.feedback_timeout.saturating_add(self.history.srtt())
    }
}

impl FlowSender for Sender {
    fn on_start(&mut self, now: Nanos) {
        self.controller.on_start(now);
        self.source = Some(Source::new(Arc::clone(&self.config), self.ends.seed, now));
        self.on_timeout(now);
    }

    /// Media come from the source, not from writes.
    fn write(&mut self, _now: Nanos, _bytes: u64) {}

    fn truncate(&mut self) {
        self.probing = None;
        self.discard();
    }

    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.probing.is_some_and(|probing| probing.is_late(now)) {
            self.probing = None;
        }
        if now < self.paced_at() {
            return None;
        }
        let packet = self.next_packet(now)?;
        let bytes = u32::from(packet.ip_bytes);
        if self.history.in_flight() == 0 {
            self.give_up_at = now.saturating_add(self.feedback_timeout());
        }
        let tag = self.tag(now, bytes);
        self.history.on_sent(now, bytes, tag);
        self.controller.on_sent(now, bytes, self.history.in_flight());
        self.last_sent = Some((now, bytes));
        self.stats.sent += 1;
        Some(packet)
    }

    fn on_feedback(&mut self, now: Nanos, packet: &Packet, report: &[Arrival]) {
        let mut results = std::mem::take(&mut self.results);
        results.clear();
        let range = (packet.aux[0], packet.aux[1]);
        self.history.on_report(now, range, packet.timestamp, report, &mut results);
        self.give_up_at = match self.history.in_flight() {
            0 => Nanos::MAX,
            _ => now.saturating_add(self.feedback_timeout()),
        };
        if !results.is_empty() {
            self.controller.on_feedback(&Feedback {
                now,
                results: &results,
                rtt: self.history.rtt().unwrap_or(0),
                srtt: self.history.srtt(),
                in_flight: self.history.in_flight(),
                queued: self.queued,
                backlog: self.backlog(),
                queue_delay: self.queue_delay(now),
            });
        }
        self.results = results;
        self.maybe_probe(now);
    }

    fn next_timeout(&self) -> Nanos {
        let frame = self.source.as_ref().map_or(Nanos::MAX, Source::next_at);
        frame.min(self.paced_at()).min(self.give_up_at)
    }

    fn on_timeout(&mut self, now: Nanos) {
        if now >= self.give_up_at {
            self.stats.timeouts += 1;
            self.history.on_timeout();
            self.give_up_at = Nanos::MAX;
            self.controller.on_feedback_timeout(now);
        }
        if let Some(source) = &mut self.source {
            // After a standstill of the driver.
            source.skip_to(now.saturating_sub(LATEST_FRAME));
        }
        // At `MAX` there is no next frame.
        let now = now.min(Nanos::MAX - 1);
        while self.source.as_ref().is_some_and(|source| source.next_at() <= now) {
            self.capture(now);
        }
        self.maybe_probe(now);
    }

    /// A source has no end.
    fn is_idle(&self) -> bool {
        false
    }

    fn rtt_sample(&self) -> Option<Nanos> {
        self.history.rtt()
    }

    fn snapshot(&self) -> Snapshot {
        let packet = f64::from(self.settings.packet);
        Snapshot {
            window: self.controller.window().map_or(f64::NAN, |bytes| bytes as f64 / packet),
            ssthresh: f64::NAN,
            in_flight: self.history.in_flight() as f64 / packet,
            rate: self.controller.send_rate(),
            srtt: self.history.srtt(),
            phase: self.controller.phase(),
        }
    }

    fn stats(&self) -> SenderStats {
        self.stats
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("target_bps", self.controller.target_rate());
        out("sender_queue_bytes", self.queued as f64);
        out("discarded_frames", self.discarded_frames as f64);
        out("reported_lost", self.history.lost() as f64);
        self.controller.record(out);
    }

    fn take_error(&mut self) -> Option<String> {
        self.controller.take_error()
    }

    fn coupled(&mut self) -> Option<&mut dyn Coupled> {
        Some(self)
    }

    fn captured(&self) -> &[Captured] {
        &self.captured
    }
}

impl Coupled for Sender {
    fn take_calculated(&mut self) -> Option<Calculated> {
        let rate = self.controller.take_calculated()?;
        let desired = match &self.source {
            Some(source) => self.ip_rate(source.most(), source.mean_interval()),
            None => f64::INFINITY,
        };
        Some(Calculated { rate, desired, rtt: self.history.srtt() })
    }

    fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.controller.set_rate(now, rate);
    }
}
