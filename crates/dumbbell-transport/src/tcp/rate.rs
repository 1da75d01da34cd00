//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation section 3).

use dumbbell_cc::{Lost, Nanos, RateSample};

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

    /// A segment is marked lost.
    pub(super) fn on_lost(&mut self, segment: &Segment) {
        self.lost += u64::from(segment.len);
    }

    /// What the controller is told of it, after [`Self::on_lost`].
    pub(super) fn lost_segment(
        &self,
        now: Nanos,
        number: u64,
        segment: &Segment,
        mss: u32,
    ) -> Lost {
        Lost {
            now,
            number,
            bytes: u32::from(segment.len),
            tx_in_flight: u64::from(segment.in_flight) * u64::from(mss),
            lost: self.lost - segment.lost,
            delivered: self.delivered,
            app_limited: segment.app_limited(),
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn send(estimator: &mut RateEstimator, now: Nanos, idle: bool) -> Segment {
        let mut segment = Segment::new(1000, false);
        segment.sent = now;
        estimator.on_send(&mut segment, now, idle);
        segment
    }

    fn ack(estimator: &mut RateEstimator, now: Nanos, segments: &[(u64, Segment)]) -> RateSample {
        let mut newest = Newest::default();
        for (number, segment) in segments {
            estimator.on_delivered(*number, segment, now, &mut newest);
        }
        estimator.sample(&newest, 0, 1000)
    }

    /// Ten segments sent at once, each acknowledged a millisecond after the one before: a bottleneck
    /// of 1000 bytes a millisecond. Once the ACKs clock the sending, samples are just that rate.
    #[test]
    fn measures_the_bottleneck() {
        let mut estimator = RateEstimator::default();
        let mut flight: Vec<_> = (0..10).map(|n| (n, send(&mut estimator, MS, n == 0))).collect();
        for round in 0..4 {
            let mut next = Vec::new();
            for (n, segment) in &flight {
                let now = (11 + n) * MS;
                let sample = ack(&mut estimator, now, &[(*n, *segment)]);
                if round >= 2 {
                    assert_eq!(sample.rate(), Some(1e6));
                }
                next.push((n + 10, send(&mut estimator, now, false)));
            }
            flight = next;
        }
    }

    /// Draft section 2.2.3: ACKs that arrive compressed do not raise the rate above that of sending.
    #[test]
    fn is_bounded_by_the_sending_rate() {
        let mut estimator = RateEstimator::default();
        let sent: Vec<_> =
            (0..10).map(|n| (n, send(&mut estimator, (1 + n) * MS, n == 0))).collect();
        ack(&mut estimator, 20 * MS, &sent[..1]);
        let sample = ack(&mut estimator, 20 * MS, &sent[1..]);
        // 9 ms between the first and the last transmission; the ACKs took none after the first.
        assert_eq!((sample.delivered, sample.interval), (10_000, 19 * MS));
        assert!(sample.rate().unwrap() <= 1e6);
    }

    /// Section 3.4: a bubble marks the samples of what is sent until it has left the pipe.
    #[test]
    fn marks_app_limited_samples() {
        let mut estimator = RateEstimator::default();
        let before = send(&mut estimator, MS, true);
        estimator.app_limited = estimator.delivered + 1000;
        let during = send(&mut estimator, 2 * MS, false);
        assert!(!ack(&mut estimator, 11 * MS, &[(0, before)]).app_limited);
        assert!(ack(&mut estimator, 12 * MS, &[(1, during)]).app_limited);
        let after = send(&mut estimator, 13 * MS, true);
        assert!(!ack(&mut estimator, 23 * MS, &[(2, after)]).app_limited);
    }

    /// Step 3a: an interval shorter than the path allows comes from a spurious retransmission.
    #[test]
    fn discards_samples_shorter_than_the_least_rtt() {
        let mut estimator = RateEstimator::default();
        let segment = send(&mut estimator, MS, true);
        let mut newest = Newest::default();
        estimator.on_delivered(0, &segment, 4 * MS, &mut newest);
        let sample = estimator.sample(&newest, 10 * MS, 1000);
        assert!(sample.has_data && sample.rate().is_none());
    }
}
