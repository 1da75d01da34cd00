//! Rate at which packets arrive, by the receiver's clock.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

/// Packets from which on a rate can be told.
const LEAST_PACKETS: usize = 5;
/// Part of the window that must be covered before a rate is told.
const LEAST_PART: u64 = 4;

/// Bits of the last window of time over its length. In a flow's first window, over what has passed
/// of it, so that a flow that has just begun does not seem slow.
#[derive(Clone, Debug)]
pub(super) struct ReceiveRate {
    window: Nanos,
    /// Arrival of the packet that it all began with.
    since: Nanos,
    newest: Nanos,
    bytes: u64,
    packets: VecDeque<(Nanos, u32)>,
}

impl ReceiveRate {
    pub(super) fn new(window: Nanos) -> Self {
        Self { window, since: 0, newest: 0, bytes: 0, packets: VecDeque::new() }
    }

    /// How far `to` lies behind `from`; negative: before it.
    fn after(from: Nanos, to: Nanos) -> i64 {
        to.wrapping_sub(from) as i64
    }

    pub(super) fn add(&mut self, arrival: Nanos, bytes: u32) {
        let window = self.window.min(i64::MAX as u64) as i64;
        // Nothing is known of a time without packets: begin anew.
        if self.packets.is_empty() || Self::after(self.newest, arrival).saturating_abs() > window {
            self.packets.clear();
            self.bytes = 0;
            self.since = arrival;
            self.newest = arrival;
        } else if Self::after(self.newest, arrival) > 0 {
            self.newest = arrival;
        }
        self.packets.push_back((arrival, bytes));
        self.bytes += u64::from(bytes);
        while let Some(&(oldest, bytes)) = self.packets.front()
            && Self::after(oldest, self.newest) >= window
        {
            self.bytes -= u64::from(bytes);
            self.packets.pop_front();
        }
    }

    /// Bits per second; `None` before there are enough packets.
    pub(super) fn get(&self) -> Option<f64> {
        let first = self.packets.front()?;
        let elapsed = u64::try_from(Self::after(self.since, self.newest)).unwrap_or(0);
        if elapsed >= self.window {
            return Some(self.bytes as f64 * 8e9 / self.window.max(1) as f64);
        }
        if self.packets.len() < LEAST_PACKETS || elapsed < self.window / LEAST_PART {
            return None;
        }
        // The first packet stands for the time before it.
        let bytes = self.bytes - u64::from(first.1);
        Some(bytes as f64 * 8e9 / elapsed.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// 1 250 bytes every 10 ms are 1 Mbit/s, from the first moment at which a rate is told.
    #[test]
    fn a_constant_rate_is_told_from_the_beginning() {
        let mut rate = ReceiveRate::new(500 * MS);
        for packet in 0..200u64 {
            rate.add(7 * MS + packet * 10 * MS, 1250);
            match rate.get() {
                Some(told) => assert!((told - 1e6).abs() < 1.0, "{told} at packet {packet}"),
                None => assert!(packet * 10 < 125, "no rate at packet {packet}"),
            }
        }
    }

    #[test]
    fn a_pause_begins_anew() {
        let mut rate = ReceiveRate::new(500 * MS);
        for packet in 0..100u64 {
            rate.add(packet * 10 * MS, 1250);
        }
        rate.add(2_000 * MS, 1250);
        assert_eq!(rate.get(), None);
    }

    #[test]
    fn absurd_arrivals_are_borne() {
        let mut rate = ReceiveRate::new(500 * MS);
        for arrival in [u64::MAX, 0, u64::MAX / 2, 3, u64::MAX - 7, 5 * MS, 1] {
            rate.add(arrival, u32::MAX);
            assert!(rate.get().is_none_or(f64::is_finite));
        }
    }
}
