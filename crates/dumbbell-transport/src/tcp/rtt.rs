//! Round-trip time and retransmission timeout (RFC 6298).

use dumbbell_cc::Nanos;

/// Largest timeout (RFC 6298 rule 2.5 asks for at least 60 s; Linux uses 120 s).
const MAX_RTO: Nanos = 120_000_000_000;
/// Before the first sample (RFC 6298 rule 2.1).
const INITIAL_RTO: Nanos = 1_000_000_000;
/// Half of the window of the minimum filter (Linux: 300 s).
const MIN_RTT_BUCKET: Nanos = 150_000_000_000;

/// SRTT, RTTVAR, RTO and a windowed minimum.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    srtt: Nanos,
    rttvar: Nanos,
    rto: Nanos,
    floor: Nanos,
    min: Nanos,
    bucket_min: Nanos,
    bucket_start: Nanos,
}

impl RttEstimator {
    /// `floor` is the least value of the variance term, as in Linux (200 ms), so that
    /// RTO = SRTT + max(floor, 4 RTTVAR).
    pub fn new(floor: Nanos) -> Self {
        Self {
            srtt: 0,
            rttvar: 0,
            rto: INITIAL_RTO.max(floor),
            floor,
            min: Nanos::MAX,
            bucket_min: Nanos::MAX,
            bucket_start: 0,
        }
    }

    pub fn sample(&mut self, now: Nanos, rtt: Nanos) {
        if self.srtt == 0 {
            self.srtt = rtt.max(1);
            self.rttvar = rtt / 2;
        } else {
            let error = self.srtt.abs_diff(rtt);
            self.rttvar = (3 * self.rttvar + error) / 4;
            self.srtt = ((7 * self.srtt + rtt) / 8).max(1);
        }
        self.rto = (self.srtt + self.floor.max(4 * self.rttvar)).min(MAX_RTO);
        self.sample_min(now, rtt);
    }

    /// Lower the windowed minimum only (a sample that is not fit for the smoothed estimate).
    pub fn sample_min(&mut self, now: Nanos, rtt: Nanos) {
        if now - self.bucket_start > MIN_RTT_BUCKET {
            self.bucket_start = now;
            self.min = self.bucket_min;
            self.bucket_min = Nanos::MAX;
        }
        self.bucket_min = self.bucket_min.min(rtt);
        self.min = self.min.min(rtt);
    }

    /// Smoothed RTT, 0 before the first sample.
    pub fn srtt(&self) -> Nanos {
        self.srtt
    }

    /// Least RTT of the last 150 to 300 s, 0 before the first sample.
    pub fn min_rtt(&self) -> Nanos {
        if self.min == Nanos::MAX { 0 } else { self.min }
    }

    /// Timeout after `backoff` expiries of the same data.
    pub fn rto(&self, backoff: u32) -> Nanos {
        self.rto.saturating_mul(1 << backoff.min(20)).min(MAX_RTO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// RFC 6298 rules 2.1 to 2.3, with the floor out of the way.
    #[test]
    fn follows_rfc_6298() {
        let mut rtt = RttEstimator::new(0);
        assert_eq!(rtt.rto(0), 1_000 * MS);
        rtt.sample(0, 100 * MS);
        assert_eq!((rtt.srtt(), rtt.rto(0)), (100 * MS, 300 * MS));
        rtt.sample(0, 200 * MS);
        // SRTT = 7/8 100 + 1/8 200; RTTVAR = 3/4 50 + 1/4 100 = 62.5
        assert_eq!((rtt.srtt(), rtt.rto(0)), (112_500_000, 362_500_000));
        assert_eq!(rtt.min_rtt(), 100 * MS);
    }

    #[test]
    fn backs_off_by_doubling_up_to_the_maximum() {
        let mut rtt = RttEstimator::new(200 * MS);
        rtt.sample(0, 40 * MS);
        assert_eq!(rtt.rto(0), 240 * MS);
        assert_eq!(rtt.rto(3), 8 * 240 * MS);
        assert_eq!(rtt.rto(30), MAX_RTO);
    }
}
