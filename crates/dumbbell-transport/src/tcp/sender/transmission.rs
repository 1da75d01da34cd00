//! What leaves, and when: new data, retransmissions, probes, pacing.

use dumbbell_cc::{IdleRestart, Nanos};

use super::{Probe, Sender, Timer};
use crate::tcp::scoreboard::Segment;
use crate::{Kind, Packet, flags};

/// Segments at the start of a connection that leave unpaced, as in Linux.
const UNPACED_SEGMENTS: u64 = 10;

impl Sender {
    /// The next packet to send now, if any. Call until it returns `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.probe != Probe::None {
            return self.send_probe(now);
        }
        let in_flight = self.board.in_flight();
        if in_flight >= self.window {
            return self.end_burst(now, true);
        }
        let lost = self.board.next_lost();
        if lost.is_none() && (self.unsent == 0 || !self.rwnd_allows()) {
            return self.end_burst(now, false);
        }
        if self.pace_next > now {
            self.pace_blocked = true;
            return self.end_burst(now, false);
        }
        let packet = match lost {
            Some(number) => self.retransmit(now, number),
            None => self.send_new(now, in_flight),
        };
        self.burst = true;
        Some(packet)
    }

    #[inline]
    pub(super) fn rwnd_allows(&self) -> bool {
        self.rwnd == u64::MAX || {
            let len = self.mss().min(self.unsent);
            self.nxt_bytes + len <= self.una_bytes + self.rwnd
        }
    }

    /// Nothing more leaves now: note how much of the window was used, and arm the probe timer.
    #[inline]
    pub(super) fn end_burst(&mut self, now: Nanos, limited: bool) -> Option<Packet> {
        if self.burst || limited {
            let out = self.board.packets_out();
            if self.board.una >= self.usage_seq
                || limited
                || !self.cwnd_limited && out > self.max_packets_out
            {
                self.cwnd_limited = limited;
                self.max_packets_out = out;
                self.usage_seq = self.board.nxt;
            }
        }
        if self.burst {
            self.burst = false;
            self.last_sent = now;
            if !matches!(self.timer, Some((_, Timer::Reorder))) {
                self.arm_probe_or_rto(now);
            }
        }
        None
    }

    #[inline]
    pub(super) fn send_new(&mut self, now: Nanos, in_flight: u64) -> Packet {
        if in_flight == 0 {
            self.on_idle_restart(now);
        }
        let len = self.mss().min(self.unsent) as u16;
        if self.unsent != u64::MAX {
            self.unsent -= u64::from(len);
        }
        let number = self.board.nxt;
        let mut segment = Segment::new(len, self.unsent == 0);
        segment.sent = now;
        segment.in_flight = in_flight as u32 + 1;
        let idle = self.board.packets_out() == 0;
        self.rate.on_send(&mut segment, now, idle);
        self.board.push(segment);
        let offset = self.nxt_bytes;
        self.nxt_bytes += u64::from(len);
        if self.timer.is_none() {
            self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
        }
        let mut packet = self.packet(now, number, &segment, offset);
        if !self.plain {
            self.marking.stamp(&mut packet);
            self.add_congestion_header(&mut packet);
        }
        self.on_transmitted(now, len, in_flight);
        packet
    }

    pub(super) fn retransmit(&mut self, now: Nanos, number: u64) -> Packet {
        let in_flight = self.board.in_flight();
        let idle = self.board.packets_out() == 0;
        let segment = self.board.get_mut(number);
        segment.sent = now;
        segment.in_flight = in_flight as u32 + 1;
        self.rate.on_send(segment, now, idle);
        let segment = *segment;
        self.board.mark_retransmitted(number, now);
        self.first_retransmit.get_or_insert(now);
        self.undo_retransmits = self.undo_retransmits.max(0) + 1;
        self.stats.retransmits += 1;
        let offset = self.offset_of(number);
        let mut packet = self.packet(now, number, &segment, offset);
        packet.flags |= flags::RETRANSMISSION;
        packet.set_ecn(self.marking.retransmission);
        self.add_congestion_header(&mut packet);
        self.on_transmitted(now, segment.len, in_flight);
        packet
    }

    fn add_congestion_header(&self, packet: &mut Packet) {
        if let Some(request) = &self.request {
            request.stamp(packet, self.window, self.rtt.srtt());
        }
    }

    /// Byte offset of an outstanding segment. All but a few have the full size, so walk from the
    /// nearer end only where they do not.
    pub(super) fn offset_of(&self, number: u64) -> u64 {
        let full = (self.nxt_bytes - self.una_bytes) == self.board.packets_out() * self.mss();
        if full {
            return self.una_bytes + (number - self.board.una) * self.mss();
        }
        (self.board.una..number)
            .fold(self.una_bytes, |sum, n| sum + u64::from(self.board.get(n).len))
    }

    pub(super) fn on_transmitted(&mut self, now: Nanos, len: u16, in_flight: u64) {
        self.stats.sent += 1;
        self.prr.on_sent();
        if let Some(rate) = self.pacing_rate {
            let start = now.max(self.pace_next);
            if self.stats.sent < UNPACED_SEGMENTS && rate < self.config.max_rate {
                self.pace_next = start;
            } else {
                // A late start earns credit of at most half a segment, as in Linux.
                let credit = start - self.pace_next;
                let gap = (f64::from(len) * 1e9 / rate) as Nanos;
                self.pace_next = start + gap - credit.min(gap / 2);
            }
        }
        if self.wants_sent {
            self.cc.on_sent(now, u32::from(len), in_flight * self.mss());
        }
    }

    /// The rate to pace at until the next event: the controller's, or Linux's own in bytes/s.
    #[inline]
    pub(super) fn update_pacing(&mut self) {
        let rate = match self.cc.pacing_rate() {
            None if self.config.pacing && self.rtt.srtt() > 0 => {
                // Linux: 200 % while cwnd < ssthresh / 2, else 120 %.
                let gain = if self.cc.cwnd() < self.cc.ssthresh() / 2 { 2.0 } else { 1.2 };
                Some(gain * (self.window * self.mss()) as f64 * 1e9 / self.rtt.srtt() as f64)
            }
            rate => rate.filter(|&rate| rate > 0.0),
        };
        let most = self.config.max_rate;
        self.pacing_rate =
            if most < f64::INFINITY { Some(rate.unwrap_or(most).min(most)) } else { rate };
    }

    #[inline]
    pub(super) fn packet(&self, now: Nanos, number: u64, segment: &Segment, offset: u64) -> Packet {
        let mut packet = Packet {
            flow: self.config.flow,
            generation: self.config.generation,
            kind: Kind::Data,
            flags: if segment.push() { flags::PUSH } else { 0 },
            ip_bytes: segment.len + self.config.header_bytes(),
            payload: segment.len,
            dscp: self.config.dscp,
            seq: number,
            timestamp: now,
            aux: [offset, 0, 0],
            ..Packet::default()
        };
        packet.set_rtt(self.last_rtt);
        packet
    }

    #[cold]
    pub(super) fn on_idle_restart(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        let restart = self.config.idle_restart
            && self.board.packets_out() == 0
            && self.stats.sent > 0
            && idle > self.rtt.rto(0);
        self.cc.on_idle_restart(&IdleRestart {
            now,
            mss: u32::from(self.config.mss),
            idle,
            app_limited: self.rate.app_limited != 0,
            restart_window: restart
                .then(|| u64::from(self.config.initial_window) * u64::from(self.config.mss)),
            delivered: self.rate.delivered,
        });
        self.update_window();
        self.update_pacing();
    }

    #[cold]
    pub(super) fn send_probe(&mut self, now: Nanos) -> Option<Packet> {
        let probe = std::mem::replace(&mut self.probe, Probe::None);
        self.stats.tail_probes += 1;
        self.tlp_retransmitted = probe == Probe::Last;
        let packet = if probe == Probe::New {
            self.send_new(now, self.board.in_flight())
        } else {
            self.retransmit(now, self.board.nxt - 1)
        };
        self.tlp_high = Some(self.board.nxt);
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
        Some(packet)
    }
}
