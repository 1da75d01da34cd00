//! What limits the sender beside the equation: what was received, and what the application wrote.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

/// Receive rates kept, and spans of full use: more than two round trips of feedback bring.
const MOST_KEPT: usize = 16;

/// Receive rates that limit the sender (X_recv_set), bytes a second.
#[derive(Debug)]
pub(super) struct ReceiveRates(VecDeque<(Nanos, f64)>);

impl Default for ReceiveRates {
    fn default() -> Self {
        let mut rates = VecDeque::with_capacity(MOST_KEPT);
        rates.push_back((0, f64::INFINITY));
        Self(rates)
    }
}

impl ReceiveRates {
    pub(super) fn newest(&self) -> f64 {
        self.0.back().map_or(0.0, |&(_, rate)| rate)
    }

    pub(super) fn greatest(&self) -> f64 {
        self.0.iter().map(|&(_, rate)| rate).fold(0.0, f64::max)
    }

    pub(super) fn replace(&mut self, now: Nanos, rate: f64) {
        self.0.clear();
        self.0.push_back((now, rate));
    }

    /// Add a rate and forget those older than two round trips.
    pub(super) fn update(&mut self, now: Nanos, rate: f64, rtt: Nanos) {
        let oldest = now.saturating_sub(rtt.saturating_mul(2));
        self.0.retain(|&(at, _)| at >= oldest);
        if self.0.len() == MOST_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((now, rate));
    }

    /// Add a rate and keep the greatest only; the initial infinity does not count.
    pub(super) fn maximise(&mut self, now: Nanos, rate: f64) {
        self.0.retain(|&(_, rate)| rate.is_finite());
        self.replace(now, self.greatest().max(rate));
    }

    pub(super) fn halve(&mut self) {
        for (_, rate) in &mut self.0 {
            *rate /= 2.0;
        }
    }
}

/// When the sender sent all that it was allowed to (section 8.2.1).
#[derive(Debug, Default)]
pub(super) struct FullUse {
    /// First and last packet that left more to send behind.
    spans: VecDeque<(Nanos, Nanos)>,
    /// The last packet was such.
    open: bool,
}

impl FullUse {
    pub(super) fn on_sent(&mut self, now: Nanos, more: bool) {
        match self.spans.back_mut() {
            Some(span) if more && self.open => span.1 = now,
            _ if more => {
                if self.spans.len() == MOST_KEPT {
                    self.spans.pop_front();
                }
                self.spans.push_back((now, now));
            }
            _ => {}
        }
        self.open = more;
    }

    /// Whether there is such a moment after `from` and until `to`.
    pub(super) fn within(&self, from: Option<Nanos>, to: Nanos) -> bool {
        let mut spans = self.spans.iter().rev();
        spans.any(|&(start, end)| start <= to && from.is_none_or(|from| end > from))
    }
}
