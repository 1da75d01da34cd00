//! How fast a transmitter sends: constant rates and Mahimahi delivery opportunities.

/// Serialisation at a constant rate with the sub-nanosecond remainder carried over, so that no
/// capacity is lost or gained by rounding.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    bps: u64,
    remainder: u64,
    /// Quotient and remainder of the last size asked for.
    cached: (u32, u64, u64),
    free_at: u64,
    /// Of a shaper.
    bucket: Option<Bucket>,
}

/// A token bucket that starts full.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// How long it takes to fill, ns.
    burst: i64,
    /// When the tokens are at zero; with a full bucket that is `burst` ago, perhaps before the start.
    zero_at: i64,
}

impl Transmitter {
    pub(crate) fn new(bps: u64, shaper_burst_bytes: Option<u32>) -> Self {
        let bucket = shaper_burst_bytes.map(|bytes| {
            let burst = (u64::from(bytes) * 8_000_000_000 / bps) as i64;
            Bucket { burst, zero_at: -burst }
        });
        Self { bps, remainder: 0, cached: (0, 0, 0), free_at: 0, bucket }
    }

    pub(crate) fn bps(&self) -> u64 {
        self.bps
    }

    /// When the next transmission may start.
    pub(crate) fn free_at(&self) -> u64 {
        self.free_at
    }

    pub(crate) fn is_shaper(&self) -> bool {
        self.bucket.is_some()
    }

    /// Transmit a packet that is next at `now`: (start, when it has left). A shaper lets it go when
    /// the tokens are not negative and then charges it; unused tokens add up to the burst.
    #[inline]
    pub(crate) fn transmit(&mut self, now: u64, bytes: u32) -> (u64, u64) {
        let start = now.max(self.free_at);
        match self.bucket {
            None => {
                let fresh = self.free_at < start;
                self.free_at = start + self.serialise(bytes, fresh);
                (start, self.free_at)
            }
            Some(mut bucket) => {
                let base = bucket.zero_at.max(start as i64 - bucket.burst);
                let fresh = base > bucket.zero_at;
                bucket.zero_at = base + self.serialise(bytes, fresh) as i64;
                self.bucket = Some(bucket);
                self.free_at = bucket.zero_at.max(0) as u64;
                (start, start)
            }
        }
    }

    /// Transmission time of the next packet; `fresh` if the transmitter was idle before it.
    #[inline]
    fn serialise(&mut self, bytes: u32, fresh: bool) -> u64 {
        if self.cached.0 != bytes {
            let work = u64::from(bytes) * 8_000_000_000;
            self.cached = (bytes, work / self.bps, work % self.bps);
        }
        if fresh {
            self.remainder = 0;
        }
        self.remainder += self.cached.2;
        if self.remainder >= self.bps {
            self.remainder -= self.bps;
            self.cached.1 + 1
        } else {
            self.cached.1
        }
    }

    /// Switch to another rate at `now`, also for the packet in transmission: what is left of it
    /// takes as long as the new rate says.
    pub(crate) fn change(&mut self, bps: u64, now: u64) {
        let left = u128::from(self.free_at.saturating_sub(now)) * u128::from(self.bps);
        let remainder = (left % u128::from(bps)) as u64;
        if self.free_at > now {
            self.free_at = now + (left / u128::from(bps)) as u64;
        }
        if let Some(bucket) = &mut self.bucket {
            let scale = |ns: i64| (i128::from(ns) * i128::from(self.bps) / i128::from(bps)) as i64;
            bucket.burst = scale(bucket.burst);
            bucket.zero_at = now as i64 + scale(bucket.zero_at - now as i64);
        }
        (self.bps, self.remainder, self.cached) = (bps, remainder, (0, 0, 0));
    }
}

/// Delivery opportunities of a Mahimahi trace, repeated for ever.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// Milliseconds of each opportunity within a period.
    ms: Vec<u64>,
    pub(crate) mtu: u32,
    index: usize,
    base_ms: u64,
}

impl Trace {
    /// `ms` must be non-empty, ascending, and end above 0.
    pub(crate) fn new(ms: Vec<u64>, mtu: u32) -> Self {
        Self { ms, mtu, index: 0, base_ms: 0 }
    }

    /// Time in nanoseconds of the next unused opportunity.
    #[inline]
    pub(crate) fn peek(&self) -> u64 {
        (self.base_ms + self.ms[self.index]) * 1_000_000
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.index += 1;
        if self.index == self.ms.len() {
            self.index = 0;
            self.base_ms += self.ms[self.ms.len() - 1];
        }
    }

    /// Waste all opportunities up to and including `now`.
    pub(crate) fn skip_to(&mut self, now: u64) {
        let period = self.ms[self.ms.len() - 1];
        let now_ms = now / 1_000_000;
        // Whole periods at once, so that a long idle time costs nothing.
        if now_ms > self.base_ms + 2 * period {
            let periods = (now_ms - self.base_ms) / period - 1;
            self.base_ms += periods * period;
        }
        while self.peek() <= now {
            self.advance();
        }
    }

    /// Opportunities in (0, `now`].
    pub(crate) fn count_until(&self, now: u64) -> u64 {
        let period = self.ms[self.ms.len() - 1];
        let now_ms = now / 1_000_000;
        let whole = now_ms / period;
        let rest = now_ms % period;
        let within = self.ms.partition_point(|&ms| ms <= rest) as u64;
        whole * self.ms.len() as u64 + within
    }

    pub(crate) fn mean_bps(&self) -> f64 {
        let period = self.ms[self.ms.len() - 1];
        self.ms.len() as f64 * f64::from(self.mtu) * 8.0 * 1000.0 / period as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 384 Gbit/s: 1500 bytes take 31.25 ns; after 4 packets exactly 125 ns.
    #[test]
    fn carries_the_remainder() {
        let mut transmitter = Transmitter::new(384_000_000_000, None);
        let ends: Vec<u64> = (0..4).map(|_| transmitter.transmit(0, 1500).1).collect();
        assert_eq!(ends, [31, 62, 93, 125]);
    }

    /// 1 Gbit/s for 1 s of 1514-byte frames: bytes within 0.01 % (deepspaceip/dipt-quic-workbench#53).
    #[test]
    fn loses_no_capacity() {
        let mut transmitter = Transmitter::new(1_000_000_000, None);
        let mut bytes = 0u64;
        while transmitter.transmit(0, 1514).1 < 1_000_000_000 {
            bytes += 1514;
        }
        assert!((bytes as f64 / 125e6 - 1.0).abs() < 1e-4);
    }

    /// A rate change takes effect within a packet (stack-rs/rattan#9): 1 kbit/s to 100 Mbit/s at 1 s.
    #[test]
    fn changes_the_rate_mid_packet() {
        let mut transmitter = Transmitter::new(1000, None);
        assert_eq!(transmitter.transmit(0, 1250), (0, 10_000_000_000));
        // 9000 of 10000 bits are left and now take 90 us.
        transmitter.change(100_000_000, 1_000_000_000);
        assert_eq!(transmitter.free_at(), 1_000_090_000);
    }

    /// A token bucket of two packets: after idling they leave at once (a third as long as the tokens
    /// are not negative), then one per packet time.
    #[test]
    fn shapes_by_tokens() {
        let mut transmitter = Transmitter::new(8_000_000, Some(2000));
        let ms = 1_000_000;
        let starts: Vec<u64> = (0..5).map(|_| transmitter.transmit(10 * ms, 1000).0).collect();
        assert_eq!(starts, [10 * ms, 10 * ms, 10 * ms, 11 * ms, 12 * ms]);
        let mut transmitter = Transmitter::new(8_000_000, Some(2000));
        let starts: Vec<u64> = (0..5).map(|_| transmitter.transmit(0, 1000).0).collect();
        assert_eq!(starts, [0, 0, 0, ms, 2 * ms]);
    }

    /// Mahimahi loops: "1" is a packet a millisecond, "1 1 2" three in two.
    #[test]
    fn repeats_the_trace() {
        let times = |ms: Vec<u64>, n| {
            let mut trace = Trace::new(ms, 1504);
            (0..n)
                .map(|_| {
                    let at = trace.peek() / 1_000_000;
                    trace.advance();
                    at
                })
                .collect::<Vec<u64>>()
        };
        assert_eq!(times(vec![1], 4), [1, 2, 3, 4]);
        assert_eq!(times(vec![1, 1, 2], 7), [1, 1, 2, 3, 3, 4, 5]);
        let mut trace = Trace::new(vec![1, 1, 2], 1504);
        assert_eq!(trace.count_until(4_000_000), 6);
        trace.skip_to(2_000_000_000);
        assert_eq!(trace.peek(), 2_001_000_000);
        assert_eq!(trace.count_until(2_000_000_000), 3000);
    }
}
