//! TCP's throughput by loss event rate and round-trip time (RFC 5348 section 3.1).

/// Packets a round trip, with b = 1 packet per ACK and a timeout of four round trips: the equation
/// without the segment's size and the round-trip time, both of which it is proportional to.
fn packets_per_round_trip(p: f64) -> f64 {
    let p = p.min(1.0);
    let timeouts = 4.0 * (3.0 * (3.0 * p / 8.0).sqrt()) * p * (1.0 + 32.0 * p * p);
    1.0 / ((2.0 * p / 3.0).sqrt() + timeouts)
}

/// Bytes a second of segments of `size` bytes at loss event rate `p` > 0 and `rtt` seconds.
pub(super) fn throughput(size: f64, rtt: f64, p: f64) -> f64 {
    size / rtt * packets_per_round_trip(p)
}

/// The least loss event rate that [`loss_rate`] gives.
pub(super) const LEAST_LOSS_RATE: f64 = 1e-10;

/// The loss event rate at which TCP would send so many packets a round trip, at most 1.
pub(super) fn loss_rate(packets: f64) -> f64 {
    let (mut low, mut high) = (LEAST_LOSS_RATE.ln(), 0.0);
    // The throughput falls with p over the whole range; 50 halvings are far below a float's precision.
    for _ in 0..50 {
        let middle: f64 = 0.5 * (low + high);
        if packets_per_round_trip(middle.exp()) > packets {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.exp()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// With p = 0.01, 1000 bytes and 100 ms: sqrt(2/300) = 0.0816497; sqrt(3/800) = 0.0612372; 12 *
    /// 0.0612372 * 0.01 * 1.0032 = 0.00737197; 10000 / 0.0890217 = 112332. The others likewise, by
    /// Python's floats.
    #[test]
    fn values() {
        for (p, expected) in [
            (1e-6, 12_247_338.487_9),
            (1e-4, 1_223_643.591_8),
            (0.001, 383_843.631_4),
            (0.01, 112_332.234_4),
            (0.1, 17_701.020_8),
            (0.5, 417.361_64),
            (1.0, 41.098_821),
        ] {
            let rate = throughput(1000.0, 0.1, p);
            assert!((rate / expected - 1.0).abs() < 1e-7, "{p}: {rate} instead of {expected}");
        }
    }

    proptest! {
        #[test]
        fn loss_rate_is_the_inverse(exponent in -8.0..0.0_f64) {
            let p = 10_f64.powf(exponent);
            let found = loss_rate(throughput(1.0, 1.0, p));
            prop_assert!((found / p - 1.0).abs() < 1e-9, "{found} instead of {p}");
        }
    }

    #[test]
    fn loss_rate_has_bounds() {
        assert!((loss_rate(0.0) - 1.0).abs() < 1e-12);
        assert!((loss_rate(f64::INFINITY) / LEAST_LOSS_RATE - 1.0).abs() < 1e-9);
    }
}
