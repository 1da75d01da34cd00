//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation section 3).

use dumbbell_cc::{Nanos, RateSample};

use super::scoreboard::Segment;

/// Per-connection state of the estimator. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateEstimator {
    pub(super) delivered: u64,
    pub(super) delivered_at: Nanos,
    pub(super) first_sent: Nanos,
    /// 0, or the value of `delivered` after which the flow no longer counts as app-limited.
    pub(super) app_limited: u64,
    pub(super) lost: u64,
}

/// The newest segment that one ACK delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub(super) number: u64,
    pub(super) sent: Nanos,
    delivered: u64,
    delivered_at: Nanos,
    first_sent: Nanos,
    lost: u64,
    in_flight: u32,
    app_limited: bool,
    pub(super) valid: bool,
}

impl RateEstimator {
    /// Stamp a segment that is being (re)transmitted.
    #[inline]
    pub(super) fn on_send(&mut self, segment: &mut Segment, now: Nanos, idle: bool) {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        segment.first_sent = self.first_sent;
        segment.delivered_at = self.delivered_at;
        segment.delivered = self.delivered;
        segment.lost = self.lost;
        segment.set_app_limited(self.app_limited != 0);
    }

    /// A segment is delivered for the first time.
    #[inline]
    pub(super) fn on_delivered(
        &mut self,
        number: u64,
        segment: &Segment,
        now: Nanos,
        newest: &mut Newest,
    ) {
        self.delivered += u64::from(segment.len);
        self.delivered_at = now;
        let newer =
            segment.sent > newest.sent || segment.sent == newest.sent && number >= newest.number;
        if !newest.valid || newer {
            *newest = Newest {
                number,
                sent: segment.sent,
                delivered: segment.delivered,
                delivered_at: segment.delivered_at,
                first_sent: segment.first_sent,
                lost: segment.lost,
                in_flight: segment.in_flight,
                app_limited: segment.app_limited(),
                valid: true,
            };
        }
    }

    /// The sample of an ACK, after all its segments were reported.
    #[inline]
    pub(super) fn sample(&mut self, newest: &Newest, min_rtt: Nanos, mss: u32) -> RateSample {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if !newest.valid {
            return RateSample::default();
        }
        self.first_sent = newest.sent;
        let send_elapsed = newest.sent - newest.first_sent;
        let ack_elapsed = self.delivered_at - newest.delivered_at;
        let interval = send_elapsed.max(ack_elapsed);
        // Shorter than the path allows: a spurious retransmission was acknowledged.
        let plausible = interval >= min_rtt;
        RateSample {
            delivered: self.delivered - newest.delivered,
            interval: if plausible { interval } else { 0 },
            prior_delivered: newest.delivered,
            has_data: true,
            app_limited: newest.app_limited,
            tx_in_flight: u64::from(newest.in_flight) * u64::from(mss),
            lost: self.lost - newest.lost,
        }
    }
}
