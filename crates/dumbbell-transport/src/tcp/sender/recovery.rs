//! Loss recovery: entering, undoing, leaving.

use dumbbell_cc::{CaState, Congestion, CongestionKind, Nanos, Undo};

use super::Sender;
use crate::Packet;

impl Sender {
    pub(super) fn apply_prr(&mut self, delivered: u64, safe: bool) {
        let ssthresh = self.cc.ssthresh() / self.mss();
        self.window = self.prr.window(ssthresh, self.board.in_flight(), delivered, safe).max(1);
    }

    /// Mark losses by RACK; returns when to look again.
    pub(super) fn detect_losses(&mut self, now: Nanos) -> Option<Nanos> {
        let recovering = matches!(self.state, CaState::Recovery | CaState::Loss);
        let (min_rtt, srtt) = (self.rtt.min_rtt(), self.rtt.srtt());
        let (rate, cc) = (&mut self.rate, &mut self.cc);
        let (mss, tell) = (u32::from(self.config.mss), self.wants_lost);
        self.rack.detect(now, &mut self.board, recovering, min_rtt, srtt, |number, segment| {
            rate.on_lost(segment);
            if tell {
                cc.on_lost(&rate.lost_segment(now, number, segment, mss));
            }
        })
    }

    /// Everything that happens only when something is SACKed, lost, retransmitted or marked.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    pub(super) fn process_trouble(
        &mut self,
        now: Nanos,
        packet: &Packet,
        ack: u64,
        advances: bool,
        marked: bool,
        in_flight_before: u64,
        delivered_before: u64,
    ) -> Option<Nanos> {
        let delayed = self.config.timestamps
            && self.first_retransmit.is_none_or(|first| packet.timestamp < first);
        // The end of an episode.
        match self.state {
            CaState::Cwr if ack > self.high_seq => self.leave(now),
            CaState::Recovery if ack >= self.high_seq => {
                if self.may_undo(delayed) {
                    self.undo(now);
                }
                self.rack.on_recovery_exit();
                self.leave(now);
            }
            CaState::Recovery
                if advances && delayed && self.may_undo(delayed) && self.board.retrans_out == 0 =>
            {
                self.rack.on_reordering();
                self.unmark_lost();
                self.undo(now);
                self.leave(now);
            }
            CaState::Loss if advances && self.may_undo(delayed) => {
                self.unmark_lost();
                self.undo(now);
                self.leave(now);
            }
            CaState::Loss if ack >= self.high_seq => self.leave(now),
            CaState::Open | CaState::Disorder
                if self.undo_marker.is_some() && self.undo_retransmits == 0 =>
            {
                self.undo(now);
            }
            _ => {}
        }
        let lost_before = self.rate.lost;
        let retrans_before = self.board.retrans_out;
        let wait = if self.rack.advanced { self.detect_losses(now) } else { None };
        let lost_retransmission = self.board.retrans_out < retrans_before;
        let enter = match self.state {
            CaState::Recovery => false,
            CaState::Loss => lost_retransmission,
            _ => self.board.lost_out > self.board.retrans_out || self.rate.lost > lost_before,
        };
        let acked = self.rate.delivered - delivered_before;
        if enter {
            self.enter_recovery(now, in_flight_before, self.rate.lost - lost_before, acked);
        } else if marked && matches!(self.state, CaState::Open | CaState::Disorder) {
            self.undo_marker = None;
            self.stats.ecn_reductions += 1;
            self.reduce(now, CongestionKind::Ecn, in_flight_before, 0, acked);
            self.state = CaState::Cwr;
            self.high_seq = self.board.nxt;
        } else if matches!(self.state, CaState::Open | CaState::Disorder) {
            self.state = if self.board.sacked_out + self.board.lost_out > 0 {
                CaState::Disorder
            } else {
                CaState::Open
            };
        }
        wait
    }

    /// Nothing is lost after all; what really is will be judged anew.
    pub(super) fn unmark_lost(&mut self) {
        self.board.unmark_all_lost();
        self.rack.rescan();
    }

    pub(super) fn begin_undo(&mut self) {
        self.undo_marker = Some(self.board.una);
        let out = self.board.retrans_out as i64;
        self.undo_retransmits = if out > 0 { out } else { -1 };
        self.undo_allowed = true;
        self.undo_timeout = false;
        if out == 0 {
            self.first_retransmit = None;
        }
    }

    pub(super) fn may_undo(&self, delayed: bool) -> bool {
        self.undo_marker.is_some() && self.undo_allowed && (self.undo_retransmits == 0 || delayed)
    }

    pub(super) fn undo(&mut self, now: Nanos) {
        self.undo_marker = None;
        if !self.undo_allowed {
            return;
        }
        self.stats.spurious += 1;
        self.cc.on_undo(&Undo { now, mss: u32::from(self.config.mss), timeout: self.undo_timeout });
    }

    pub(super) fn enter_recovery(&mut self, now: Nanos, in_flight: u64, lost: u64, acked: u64) {
        self.stats.recoveries += 1;
        let in_reduction = matches!(self.state, CaState::Cwr | CaState::Recovery);
        let allowed = !matches!(self.state, CaState::Cwr);
        self.begin_undo();
        self.undo_allowed = allowed;
        self.state = CaState::Recovery;
        self.high_seq = self.board.nxt;
        if !in_reduction {
            self.reduce(now, CongestionKind::Loss, in_flight, lost, acked);
        }
    }

    pub(super) fn reduce(
        &mut self,
        now: Nanos,
        kind: CongestionKind,
        in_flight: u64,
        lost: u64,
        acked: u64,
    ) {
        self.tlp_high = None;
        self.prr.start(self.window);
        self.marking.on_reduction();
        self.notify_congestion(now, kind, in_flight, lost, acked);
    }

    pub(super) fn notify_congestion(
        &mut self,
        now: Nanos,
        kind: CongestionKind,
        in_flight: u64,
        lost: u64,
        acked: u64,
    ) {
        self.cc.on_congestion(&Congestion {
            now,
            kind,
            mss: u32::from(self.config.mss),
            inflight: in_flight * self.mss(),
            lost,
            srtt: self.rtt.srtt(),
            delivered: self.rate.delivered,
            acked,
        });
    }

    pub(super) fn leave(&mut self, now: Nanos) {
        self.state = CaState::Open;
        if self.board.lost_out == 0 && self.board.retrans_out == 0 {
            self.board.forget_recovery();
        }
        self.cc.on_recovery_exit(now);
    }
}
