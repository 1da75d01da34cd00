//! Retransmission, probe and reordering timers.

use dumbbell_cc::{CaState, Nanos, Rto};

use super::{Probe, Sender, Timer};

/// Added to the probe timeout when the receiver may delay its ACK (RFC 8985 section 7.2).
const TLP_DELAYED_ACK: Nanos = 200_000_000;
/// Granularity that Linux adds to the probe timeout.
const TLP_MARGIN: Nanos = 2_000_000;

impl Sender {
    /// When [`Self::on_timeout`] has to be called, `Nanos::MAX` if never.
    pub fn next_timeout(&self) -> Nanos {
        self.timer_deadline().min(self.pacing_deadline())
    }

    /// The part of [`Self::next_timeout`] that loss recovery asks for: moves with every ACK.
    #[inline]
    pub fn timer_deadline(&self) -> Nanos {
        self.timer.map_or(Nanos::MAX, |(at, _)| at)
    }

    /// The part of [`Self::next_timeout`] that pacing asks for.
    #[inline]
    pub fn pacing_deadline(&self) -> Nanos {
        if self.pace_blocked { self.pace_next } else { Nanos::MAX }
    }

    /// A timer may be due. Call [`Self::poll_transmit`] afterwards.
    pub fn on_timeout(&mut self, now: Nanos) {
        if self.pace_blocked && self.pace_next <= now {
            self.pace_blocked = false;
        }
        let Some((at, timer)) = self.timer else {
            return;
        };
        if at > now {
            return;
        }
        self.timer = None;
        self.check_app_limited();
        match timer {
            Timer::Rto => self.on_rto(now),
            Timer::Tlp => self.on_probe_timeout(now),
            Timer::Reorder => self.on_reorder_timeout(now),
        }
    }

    pub(super) fn arm_probe_or_rto(&mut self, now: Nanos) {
        let out = self.board.packets_out();
        if out == 0 {
            self.timer = None;
            return;
        }
        let rto = now + self.rtt.rto(self.backoff);
        let probing = self.config.tlp
            && self.tlp_high.is_none()
            && self.board.sacked_out == 0
            && matches!(self.state, CaState::Open | CaState::Cwr)
            && self.rtt.srtt() > 0;
        self.timer = Some(if probing {
            let slack = if out == 1 { TLP_DELAYED_ACK } else { TLP_MARGIN };
            let probe = now + 2 * self.rtt.srtt() + slack;
            if probe < rto { (probe, Timer::Tlp) } else { (rto, Timer::Rto) }
        } else {
            (rto, Timer::Rto)
        });
    }

    pub(super) fn on_probe_timeout(&mut self, now: Nanos) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
        if self.unsent > 0 && self.rwnd_allows() {
            self.probe = Probe::New;
        } else if !self.board.get(self.board.nxt - 1).sacked() {
            self.probe = Probe::Last;
        }
    }

    pub(super) fn on_reorder_timeout(&mut self, now: Nanos) {
        let inflight = self.board.in_flight();
        let lost_before = self.rate.lost;
        let wait = self.detect_losses(now);
        if self.rate.lost > lost_before {
            if !matches!(self.state, CaState::Recovery) {
                self.enter_recovery(now, inflight, self.rate.lost - lost_before, 0);
            }
            if self.prr_rules() {
                self.apply_prr(1, false);
            } else {
                self.update_window();
            }
        }
        self.update_pacing();
        self.timer = Some(match wait {
            Some(at) => (at.max(now + 1), Timer::Reorder),
            None => (now + self.rtt.rto(self.backoff), Timer::Rto),
        });
    }

    pub(super) fn on_rto(&mut self, now: Nanos) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.stats.timeouts += 1;
        let first = match self.state {
            CaState::Open | CaState::Disorder => true,
            CaState::Loss => self.timeouts_in_loss == 0 || self.board.una >= self.high_seq,
            CaState::Cwr | CaState::Recovery => self.board.una >= self.high_seq,
        };
        let (rate, cc) = (&mut self.rate, &mut self.cc);
        let (mss, tell) = (u32::from(self.config.mss), self.wants_lost);
        self.rack.mark_on_timeout(now, &mut self.board, |number, segment| {
            rate.on_lost(segment);
            if tell {
                cc.on_lost(&rate.lost_segment(now, number, segment, mss));
            }
        });
        if first {
            self.begin_undo();
        }
        self.undo_timeout = true;
        self.state = CaState::Loss;
        self.high_seq = self.board.nxt;
        self.tlp_high = None;
        self.probe = Probe::None;
        self.timeouts_in_loss += 1;
        self.backoff += 1;
        self.cc.on_rto(&Rto {
            now,
            mss: u32::from(self.config.mss),
            inflight: self.board.in_flight() * self.mss(),
            first,
            delivered: self.rate.delivered,
        });
        self.window = (self.cc.cwnd() / self.mss()).max(self.board.in_flight() + 1);
        self.update_pacing();
        self.pace_next = self.pace_next.min(now);
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
    }
}
