//! Which bytes of the connection may leave, and how far the shared receive window lets them.

/// Consecutive bytes of the connection that travel in one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    /// First byte's place in the connection's data sequence (as in MPTCP, RFC 8684).
    pub(super) start: u64,
    pub(super) len: u16,
}

impl Range {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// The connection's data: what was written and not handed out, and what is outstanding.
#[derive(Debug)]
pub(super) struct Scheduler {
    /// `u64::MAX`: an endless supply.
    backlog: u64,
    next: u64,
    /// All bytes before it have arrived.
    acked: u64,
    /// Receive window, bytes.
    window: u64,
    mss: u16,
}

impl Scheduler {
    pub(super) fn new(window: u64, mss: u16) -> Self {
        Self { backlog: 0, next: 0, acked: 0, window, mss }
    }

    pub(super) fn write(&mut self, bytes: u64) {
        self.backlog = self.backlog.saturating_add(bytes);
    }

    pub(super) fn truncate(&mut self) {
        self.backlog = 0;
    }

    pub(super) fn backlog(&self) -> u64 {
        self.backlog
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    pub(super) fn is_idle(&self) -> bool {
        self.backlog == 0 && self.acked == self.next
    }

    /// Bytes that the receive window has room for.
    pub(super) fn free(&self) -> u64 {
        self.window.saturating_sub(self.next - self.acked)
    }

    /// The receiver has all bytes before `data_ack`, and room for `window` behind them.
    pub(super) fn on_ack(&mut self, data_ack: u64, window: Option<u64>) {
        if data_ack < self.acked || data_ack > self.next {
            return;
        }
        self.acked = data_ack;
        if let Some(window) = window {
            self.window = window;
        }
    }

    /// What would be handed out next.
    #[inline]
    pub(super) fn peek(&self) -> Option<Range> {
        let len = u64::from(self.mss).min(self.backlog);
        (len > 0 && len <= self.free()).then_some(Range { start: self.next, len: len as u16 })
    }

    /// Hand out what [`Self::peek`] has shown.
    #[inline]
    pub(super) fn take(&mut self, range: Range) {
        if self.backlog != u64::MAX {
            self.backlog -= u64::from(range.len);
        }
        self.next = range.end();
    }

    /// Bytes that the low class may have outstanding. It cuts back where the high class is about to be
    /// held up by the receive window, which both share.
    #[inline]
    pub(super) fn low_allowance(&self, high_outstanding: u64, high_window: u64) -> u64 {
        if self.free() >= high_window {
            return u64::MAX;
        }
        self.window.saturating_sub(high_outstanding.saturating_add(high_window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(scheduler: &mut Scheduler) -> Option<(u64, u16)> {
        let range = scheduler.peek()?;
        scheduler.take(range);
        Some((range.start, range.len))
    }

    #[test]
    fn hands_out_whole_ranges_within_the_window() {
        let mut scheduler = Scheduler::new(2500, 1000);
        scheduler.write(3300);
        assert_eq!(take(&mut scheduler), Some((0, 1000)));
        assert_eq!(take(&mut scheduler), Some((1000, 1000)));
        assert_eq!((take(&mut scheduler), scheduler.free()), (None, 500));
        scheduler.on_ack(1000, None);
        assert_eq!(take(&mut scheduler), Some((2000, 1000)));
        scheduler.on_ack(3000, Some(200));
        assert_eq!(take(&mut scheduler), None);
        scheduler.on_ack(3000, Some(300));
        assert_eq!(take(&mut scheduler), Some((3000, 300)));
        assert!(!scheduler.is_idle());
        scheduler.on_ack(3300, None);
        assert!(scheduler.is_idle());
    }

    /// If the window has no room for the high class's own window, the low class may have
    /// window - outstanding - window of the high class; never less than nothing.
    #[test]
    fn low_class_cuts_back_for_the_high_class() {
        let mut scheduler = Scheduler::new(10_000, 1000);
        scheduler.write(u64::MAX);
        assert_eq!(scheduler.low_allowance(0, 10_000), u64::MAX);
        for _ in 0..6 {
            take(&mut scheduler);
        }
        assert_eq!(scheduler.low_allowance(2000, 4000), u64::MAX);
        assert_eq!(scheduler.low_allowance(2000, 4001), 3999);
        assert_eq!(scheduler.low_allowance(5000, 6000), 0);
    }

    #[test]
    fn absurd_acks_are_ignored() {
        let mut scheduler = Scheduler::new(10_000, 1000);
        scheduler.write(1000);
        take(&mut scheduler);
        scheduler.on_ack(u64::MAX, Some(0));
        assert_eq!((scheduler.acked(), scheduler.free()), (0, 9000));
    }
}
