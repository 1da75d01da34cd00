//! Which samples ProbeRTT spoils. Linux marks the connection application limited there; a controller
//! here cannot mark the transport, so it remembers the stretch itself, by the same rule.

/// The stretch of data that was sent while the connection counted as application limited because of
/// ProbeRTT: its delivery rates say nothing about the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuietSpan {
    /// `delivered` when it began, and when it ended (while it lasts: `u64::MAX`).
    from: u64,
    to: u64,
    /// It ends when more than this is delivered.
    limit: u64,
}

impl QuietSpan {
    pub(crate) fn extend(&mut self, delivered: u64, inflight: u64) {
        if self.to != u64::MAX {
            self.from = delivered;
            self.to = u64::MAX;
        }
        self.limit = (delivered + inflight).max(1);
    }

    pub(crate) fn on_delivered(&mut self, delivered: u64) {
        if self.to == u64::MAX && delivered > self.limit {
            self.to = delivered;
        }
    }

    pub(crate) fn covers(&self, sent_at: u64) -> bool {
        (self.from..self.to).contains(&sent_at)
    }
}
