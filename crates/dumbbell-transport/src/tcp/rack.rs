//! RACK loss detection (RFC 8985 section 6).

use dumbbell_cc::Nanos;

use super::scoreboard::{Scoreboard, Segment};

/// SACKed segments that make loss likely without any reordering window (RFC 8985 step 4).
const DUP_THRESHOLD: u64 = 3;
/// Recoveries without DSACK after which the reordering window returns to its base.
const REO_WND_PERSIST: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rack {
    /// Send time and number of the most recently sent segment that was delivered.
    sent: Nanos,
    number: u64,
    rtt: Nanos,
    /// First segment of the first transmissions that was not judged yet.
    scan: u64,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    dsack_round: u64,
    /// This ACK advanced the reference.
    pub(super) advanced: bool,
}

impl Rack {
    #[inline]
    pub(super) fn on_delivered(
        &mut self,
        number: u64,
        segment: &Segment,
        now: Nanos,
        min_rtt: Nanos,
    ) {
        let rtt = now - segment.sent;
        // The original may have been acknowledged, not the retransmission (step 2).
        if segment.ever_retransmitted() && rtt < min_rtt {
            return;
        }
        self.advanced = true;
        if segment.sent > self.sent || segment.sent == self.sent && number > self.number {
            self.rtt = rtt;
            self.sent = segment.sent;
            self.number = number;
        }
    }

    pub(super) fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// A DSACK: widen the window once a round.
    pub(super) fn on_dsack(&mut self, una: u64, nxt: u64) {
        if una >= self.dsack_round {
            self.reo_wnd_mult = (self.reo_wnd_mult + 1).min(254);
            self.dsack_round = nxt;
        }
        self.reo_wnd_persist = REO_WND_PERSIST;
        self.reordering_seen = true;
    }

    /// Judge every outstanding segment again: marks were taken back.
    pub(super) fn rescan(&mut self) {
        self.scan = 0;
    }

    pub(super) fn on_recovery_exit(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 0;
        }
    }

    fn reo_wnd(&self, recovering: bool, sacked_out: u64, min_rtt: Nanos, srtt: Nanos) -> Nanos {
        if !self.reordering_seen && (recovering || sacked_out >= DUP_THRESHOLD) {
            return 0;
        }
        (min_rtt / 4 * u64::from(self.reo_wnd_mult + 1)).min(srtt)
    }

    fn sent_before_reference(&self, sent: Nanos, number: u64) -> bool {
        sent < self.sent || sent == self.sent && number < self.number
    }

    /// Step 5: mark what is lost, calling `lost` for each; returns when to look again, if some
    /// segments are only suspected.
    pub(super) fn detect(
        &mut self,
        now: Nanos,
        board: &mut Scoreboard,
        recovering: bool,
        min_rtt: Nanos,
        srtt: Nanos,
        mut lost: impl FnMut(u64, &Segment),
    ) -> Option<Nanos> {
        let due = self.rtt + self.reo_wnd(recovering, board.sacked_out, min_rtt, srtt);
        let mut wait = None;
        self.scan = self.scan.max(board.una);
        while self.scan < board.nxt {
            let segment = board.get(self.scan);
            if !(segment.sacked() || segment.is_lost() || segment.ever_retransmitted()) {
                if !self.sent_before_reference(segment.sent, self.scan) {
                    break;
                }
                if segment.sent + due > now {
                    wait = Some(self.sent + due);
                    break;
                }
                if board.mark_lost(self.scan) {
                    lost(self.scan, board.get(self.scan));
                }
            }
            self.scan += 1;
        }
        while let Some(&(number, sent)) = board.retransmissions.front() {
            let stale = number < board.una || {
                let segment = board.get(number);
                !segment.retransmitted() || segment.sent != sent
            };
            if !stale {
                if !self.sent_before_reference(sent, number) {
                    break;
                }
                if sent + due > now {
                    wait = Some(wait.unwrap_or(0).max(self.sent + due));
                    break;
                }
                if board.mark_lost(number) {
                    lost(number, board.get(number));
                }
            }
            board.retransmissions.pop_front();
        }
        wait
    }

    /// After a timeout (section 6.3): the first outstanding segment is lost, others only if they are
    /// old enough.
    pub(super) fn mark_on_timeout(
        &self,
        now: Nanos,
        board: &mut Scoreboard,
        mut lost: impl FnMut(u64, &Segment),
    ) {
        for number in board.una..board.nxt {
            let segment = board.get(number);
            if segment.sacked() {
                continue;
            }
            if (number == board.una || segment.sent + self.rtt <= now) && board.mark_lost(number) {
                lost(number, board.get(number));
            }
        }
    }
}
