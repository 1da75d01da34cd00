//! Proportional Rate Reduction (RFC 9937), in segments.

/// State from the entry into recovery (or CWR) until its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    prior_cwnd: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    pub(super) fn start(&mut self, cwnd: u64) {
        *self = Self { prior_cwnd: cwnd.max(1), delivered: 0, out: 0 };
    }

    pub(super) fn on_sent(&mut self) {
        self.out += 1;
    }

    /// Window after an ACK that delivered `delivered` segments with `inflight` left. `safe` is RFC
    /// 9937's SafeACK: cumulative progress and no new loss.
    pub(super) fn window(
        &mut self,
        ssthresh: u64,
        inflight: u64,
        delivered: u64,
        safe: bool,
    ) -> u64 {
        self.delivered += delivered;
        let mut count = if inflight > ssthresh {
            (self.delivered * ssthresh).div_ceil(self.prior_cwnd).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + u64::from(safe);
            limit.min(ssthresh - inflight)
        };
        // One segment may always leave at entry: the fast retransmit.
        if self.out == 0 {
            count = count.max(1);
        }
        inflight + count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 section 4: 20 segments in flight, one lost, Reno halves. PRR sends about one segment
    /// for every two ACKs and ends with 10 in flight.
    #[test]
    fn spreads_the_reduction_over_the_round() {
        let mut prr = Prr::default();
        prr.start(20);
        let (mut pipe, mut sent) = (20u64, 0u64);
        // Entry after three duplicate ACKs: one of 20 is lost, three are SACKed.
        pipe -= 1 + 3;
        let mut window = prr.window(10, pipe, 3, false);
        for ack in 0..16 {
            while pipe < window {
                pipe += 1;
                sent += 1;
                prr.on_sent();
            }
            if ack < 15 {
                pipe -= 1;
                window = prr.window(10, pipe, 1, false);
            }
        }
        assert_eq!(pipe, 10);
        assert!((9..=10).contains(&sent), "{sent}");
    }

    /// RFC 6937 section 4, 15 of 20 lost: each ACK lets out what it delivered plus one (slow-start
    /// bound) once it is safe, never a burst beyond ssthresh.
    #[test]
    fn rebuilds_after_heavy_loss_without_a_burst() {
        let mut prr = Prr::default();
        prr.start(20);
        let mut pipe = 5 - 3;
        let mut window = prr.window(10, pipe, 3, false);
        assert!(window - pipe <= 3);
        for _ in 0..20 {
            while pipe < window {
                pipe += 1;
                prr.on_sent();
            }
            assert!(pipe <= 10);
            pipe -= 1;
            window = prr.window(10, pipe, 1, true);
            assert!(window - pipe <= 2);
        }
        assert_eq!(window, 10);
    }
}
