//! One ACK: what it delivered, what it measured, what follows.

use dumbbell_cc::{Ack, CaState, CongestionKind, Nanos};

use super::{Delivery, Sender, Timer};
use crate::tcp::ecn::Marks;
use crate::{Packet, flags};

impl Sender {
    /// An ACK arrived. Call [`Self::poll_transmit`] afterwards.
    #[inline]
    pub fn on_ack(&mut self, now: Nanos, packet: &Packet) {
        self.check_app_limited();
        if let Some(scale) = self.config.window_scale {
            self.rwnd = u64::from(packet.payload) << scale;
        }
        let una_before = self.board.una;
        let in_flight_before = self.board.in_flight();
        let delivered_before = self.rate.delivered;
        let lost_before = self.rate.lost;
        let lost_segments_before = self.board.lost_out;
        let ack = packet.seq.min(self.board.nxt);
        let advances = ack > una_before;
        let mut delivery = Delivery::default();
        self.rack.advanced = false;
        if advances {
            self.take_cumulative(now, ack, &mut delivery);
            self.timeouts_in_loss = 0;
        }
        if packet.aux[0] != 0 {
            self.take_sack(now, packet, &mut delivery);
        }
        if delivery.reordered {
            self.rack.on_reordering();
        }
        let rtt = self.sample_rtt(now, packet, &delivery, advances);
        self.ack_rtt = rtt;

        let mut marks = Marks::default();
        let mut feedback = 0.0;
        if !self.plain {
            marks =
                self.read_marks(packet, self.rate.delivered - delivered_before, delivery.segments);
            feedback = self.request.map_or(0.0, |request| request.read(packet));
        }
        let marked = self.marking.cuts(marks);
        let dsack = packet.flags & flags::DSACK != 0;
        if self.tlp_high.is_some() {
            self.end_probe(now, ack, dsack, advances || delivery.segments > 0, in_flight_before);
        }
        let trouble = self.state != CaState::Open
            || self.board.sacked_out + self.board.lost_out + self.board.retrans_out > 0
            || marked;
        let mut wait = None;
        if trouble {
            wait = self.process_trouble(
                now,
                packet,
                ack,
                advances,
                marked,
                in_flight_before,
                delivered_before,
            );
        }
        let lost = self.rate.lost - lost_before;
        let sample =
            self.rate.sample(&delivery.newest, self.rtt.min_rtt(), u32::from(self.config.mss));
        let round_start = sample.has_data && sample.prior_delivered >= self.next_round;
        if round_start {
            self.next_round = self.rate.delivered;
            self.round += 1;
        }
        let acked = self.rate.delivered - delivered_before;
        let cwnd_limited = self.cwnd_limited
            || self.cc.cwnd() < self.cc.ssthresh() && self.window < 2 * self.max_packets_out;
        self.cc.on_ack(&Ack {
            now,
            mss: u32::from(self.config.mss),
            acked,
            lost,
            ce: marks.ce,
            ce_packets: marks.ce_packets,
            sce: marks.sce,
            feedback,
            ecn_failed: self.marking.failed,
            ece: marks.ece,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            rate: sample,
            delivered: self.rate.delivered,
            lost_total: self.rate.lost,
            inflight_before: in_flight_before * self.mss(),
            inflight: self.board.in_flight() * self.mss(),
            snd_una: self.una_bytes,
            snd_nxt: self.nxt_bytes,
            round: self.round,
            round_start,
            cwnd_limited,
            app_limited: self.rate.app_limited != 0,
            advances,
            maybe_delayed: advances && in_flight_before == 1,
            state: self.state,
        });
        if self.prr_rules() {
            if delivery.segments > 0 || lost > 0 {
                let safe = advances && self.board.lost_out <= lost_segments_before && lost == 0;
                self.apply_prr(delivery.segments, safe);
            }
        } else {
            self.update_window();
        }
        self.update_pacing();
        if self.board.packets_out() == 0 {
            self.timer = None;
        } else if let Some(at) = wait {
            self.timer = Some((at.max(now + 1), Timer::Reorder));
        } else if advances || self.sacked_before_head(&delivery) {
            self.arm_probe_or_rto(now);
        } else if matches!(self.timer, Some((_, Timer::Reorder)) | None) {
            let rto = self.board.get(self.board.una).sent + self.rtt.rto(self.backoff);
            self.timer = Some((rto.max(now + 1), Timer::Rto));
        }
        // Rate changes let a paced sender go on earlier or later.
        if self.pace_blocked && self.pace_next <= now {
            self.pace_blocked = false;
        }
    }

    #[inline(never)]
    fn read_marks(&mut self, packet: &Packet, bytes: u64, segments: u64) -> Marks {
        let had_failed = self.marking.failed;
        let window = (self.board.una, self.board.nxt);
        let marks = self.marking.read(packet, (bytes, segments), window, self.round);
        self.stats.ecn_failed += u64::from(self.marking.failed && !had_failed);
        if marks.ece {
            self.undo_allowed = false;
        }
        marks
    }

    /// The ACK SACKs data older than the last transmission of the head, so it may put off the
    /// timeout. Newer data may not, or the timeout of a lost head would never come (Linux).
    pub(super) fn sacked_before_head(&self, delivery: &Delivery) -> bool {
        delivery.sacked_first.is_some_and(|first| first < self.board.get(self.board.una).sent)
    }

    #[inline]
    pub(super) fn take_cumulative(&mut self, now: Nanos, ack: u64, delivery: &mut Delivery) {
        let min_rtt = self.rtt.min_rtt();
        let highest_sacked = self.board.sacked.end().unwrap_or(0);
        for number in self.board.una..ack {
            let segment = *self.board.get(number);
            self.una_bytes += u64::from(segment.len);
            if segment.sacked() {
                self.board.unsack();
                continue;
            }
            self.board.account_delivered(number);
            delivery.segments += 1;
            self.rate.on_delivered(number, &segment, now, &mut delivery.newest);
            self.rack.on_delivered(number, &segment, now, min_rtt);
            if segment.ever_retransmitted() {
                delivery.retransmission_acked = true;
            } else {
                delivery.first_sent.get_or_insert(segment.sent);
                delivery.last_sent = segment.sent;
                delivery.reordered |= number < highest_sacked;
            }
        }
        self.board.una = ack;
        if highest_sacked > 0 {
            self.board.sacked.remove_below(ack);
        }
    }

    pub(super) fn take_sack(&mut self, now: Nanos, packet: &Packet, delivery: &mut Delivery) {
        if packet.flags & flags::DSACK != 0 {
            self.rack.on_dsack(self.board.una, self.board.nxt);
            if self.undo_marker.is_some() && self.undo_retransmits > 0 {
                self.undo_retransmits -= 1;
            }
        }
        let min_rtt = self.rtt.min_rtt();
        let mut sacked = std::mem::take(&mut self.board.sacked);
        let highest = sacked.end().unwrap_or(0);
        for (start, end) in packet.sack_blocks() {
            let (start, end) = (start.max(self.board.una), end.min(self.board.nxt));
            let (board, rate, rack) = (&mut self.board, &mut self.rate, &mut self.rack);
            sacked.insert(start, end, 0, |from, to| {
                for number in from..to {
                    let segment = *board.get(number);
                    delivery.segments += 1;
                    rate.on_delivered(number, &segment, now, &mut delivery.newest);
                    rack.on_delivered(number, &segment, now, min_rtt);
                    board.mark_sacked(number);
                    if !segment.ever_retransmitted() {
                        delivery.sacked_first.get_or_insert(segment.sent);
                        delivery.sacked_last = segment.sent;
                        delivery.reordered |= number < highest;
                    }
                }
            });
        }
        self.board.sacked = sacked;
    }

    /// RTT samples as Linux takes them: the smoothed one from the oldest segment newly acknowledged,
    /// the controller's from the newest; from the echoed timestamp where Karn's rule forbids both.
    #[inline]
    pub(super) fn sample_rtt(
        &mut self,
        now: Nanos,
        packet: &Packet,
        delivery: &Delivery,
        advances: bool,
    ) -> Option<Nanos> {
        let usable = !delivery.retransmission_acked;
        let (smoothed, latest) = match (delivery.first_sent, delivery.sacked_first) {
            (Some(first), _) if usable => (now - first, now - delivery.last_sent),
            (_, Some(first)) => (now - first, now - delivery.sacked_last),
            _ if advances && self.config.timestamps && packet.timestamp > 0 => {
                let rtt = now - packet.timestamp;
                (rtt, rtt)
            }
            _ => return None,
        };
        self.rtt.sample(now, smoothed);
        self.rtt.sample_min(now, latest);
        self.backoff = 0;
        self.last_rtt = latest;
        Some(latest)
    }

    pub(super) fn end_probe(
        &mut self,
        now: Nanos,
        ack: u64,
        dsack: bool,
        progress: bool,
        in_flight: u64,
    ) {
        let Some(high) = self.tlp_high else { return };
        if ack < high {
            return;
        }
        if self.tlp_retransmitted && !dsack && ack > high {
            // The probe repaired a loss: one reduction (RFC 8985 section 7.4.2).
            self.tlp_high = None;
            if matches!(self.state, CaState::Open | CaState::Disorder) {
                self.undo_marker = None;
                self.notify_congestion(now, CongestionKind::Loss, in_flight, 0, 0);
            }
        } else if !self.tlp_retransmitted || dsack || !progress {
            self.tlp_high = None;
        }
    }
}
