//! How fast a transmitter sends: constant rates and Mahimahi delivery opportunities.

/// Serialisation at a constant rate with the sub-nanosecond remainder carried over, so that no
/// capacity is lost or gained by rounding.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    bps: u64,
    remainder: u64,
    /// Quotient and remainder of the last size asked for.
    cached: (u32, u64, u64),
}

impl Transmitter {
    pub(crate) fn new(bps: u64) -> Self {
        Self {
            bps,
            remainder: 0,
            cached: (0, 0, 0),
        }
    }

    pub(crate) fn bps(&self) -> u64 {
        self.bps
    }

    /// Transmission time of the next packet; `fresh` if the transmitter was idle before it.
    #[inline]
    pub(crate) fn serialise(&mut self, bytes: u32, fresh: bool) -> u64 {
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

    /// Switch to another rate at `now` while a packet is to end at `done`: its new end.
    pub(crate) fn change(&mut self, bps: u64, now: u64, done: u64) -> u64 {
        let left = u128::from(done.saturating_sub(now)) * u128::from(self.bps);
        let (old, new) = (left / u128::from(bps), left % u128::from(bps));
        *self = Self::new(bps);
        self.remainder = new as u64;
        now + old as u64
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
        Self {
            ms,
            mtu,
            index: 0,
            base_ms: 0,
        }
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

    /// Waste all opportunities up to and including `now`; returns how many.
    pub(crate) fn skip_to(&mut self, now: u64) -> u64 {
        let period = self.ms[self.ms.len() - 1];
        let mut wasted = 0;
        let now_ms = now / 1_000_000;
        // Whole periods at once, so that a long idle time costs nothing.
        if now_ms > self.base_ms + 2 * period {
            let periods = (now_ms - self.base_ms) / period - 1;
            self.base_ms += periods * period;
            wasted += periods * self.ms.len() as u64;
        }
        while self.peek() <= now {
            self.advance();
            wasted += 1;
        }
        wasted
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
        let mut transmitter = Transmitter::new(384_000_000_000);
        let times: Vec<u64> = (0..4)
            .map(|i| transmitter.serialise(1500, i == 0))
            .collect();
        assert_eq!(times.iter().sum::<u64>(), 125);
    }

    /// 1 Gbit/s for 1 s of 1514-byte frames: bytes within 0.01 % (deepspaceip/dipt-quic-workbench#53).
    #[test]
    fn loses_no_capacity() {
        let mut transmitter = Transmitter::new(1_000_000_000);
        let (mut now, mut bytes) = (0, 0u64);
        while now < 1_000_000_000 {
            now += transmitter.serialise(1514, bytes == 0);
            bytes += 1514;
        }
        assert!((bytes as f64 / 125e6 - 1.0).abs() < 1e-4);
    }

    /// A rate change takes effect within a packet (stack-rs/rattan#9): 1 kbit/s to 100 Mbit/s at 1 s.
    #[test]
    fn changes_the_rate_mid_packet() {
        let mut transmitter = Transmitter::new(1000);
        let done = transmitter.serialise(1250, true);
        assert_eq!(done, 10_000_000_000);
        // 9000 of 10000 bits are left and now take 90 us.
        assert_eq!(
            transmitter.change(100_000_000, 1_000_000_000, done),
            1_000_090_000
        );
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
        assert_eq!(trace.skip_to(2_000_000_000), 3000);
        assert_eq!(trace.peek(), 2_001_000_000);
        assert_eq!(trace.count_until(2_000_000_000), 3000);
    }
}
