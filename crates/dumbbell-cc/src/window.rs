//! A congestion window counted in whole segments, as Linux counts it.
//!
//! ACKs are counted in bytes: what falls short of a segment or of the next increase is kept, so no
//! growth is lost to rounding at any window (RFC 5681 section 3.1, byte counting).

use crate::SSTHRESH_INFINITE;
use crate::event::Start;

/// Least slow-start threshold after a cut, in segments (RFC 5681 equation 4).
const MIN_SSTHRESH: u64 = 2;
/// Windows stop growing here; far above any path, far below an overflow.
const MAX_SEGMENTS: u64 = 1 << 31;

#[derive(Clone, Debug)]
pub(crate) struct Window {
    mss: u64,
    segments: u64,
    /// In segments; `u64::MAX` before the first cut.
    ssthresh: u64,
    /// Bytes acked in slow start that do not fill a segment yet.
    part: u64,
    /// Bytes acked in avoidance since the last increase.
    credit: u64,
    /// What [`add`](Self::add) has not made a whole segment of, in [0, 1).
    fraction: f64,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { mss: 1, segments: 1, ssthresh: u64::MAX, part: 0, credit: 0, fraction: 0.0 }
    }

    pub(crate) fn start(&mut self, event: &Start) {
        *self = Self::new();
        self.set_mss(event.mss);
        self.segments = (event.initial_window / self.mss).clamp(1, MAX_SEGMENTS);
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) fn segments(&self) -> u64 {
        self.segments
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments * self.mss
    }

    /// In segments, `u64::MAX` if there is none yet.
    pub(crate) fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    pub(crate) fn ssthresh_bytes(&self) -> u64 {
        if self.ssthresh == u64::MAX { SSTHRESH_INFINITE } else { self.ssthresh * self.mss }
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Segments that hold `bytes`, at most.
    pub(crate) fn to_segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mss)
    }

    /// Leave slow start at the present window.
    pub(crate) fn exit_slow_start(&mut self) {
        self.ssthresh = self.segments.max(MIN_SSTHRESH);
    }

    /// One byte more for each byte acked, up to `ssthresh`. Returns the bytes beyond it, which count
    /// in congestion avoidance.
    pub(crate) fn slow_start(&mut self, acked: u64) -> u64 {
        let total = self.part + acked;
        let grown = total / self.mss;
        let room = self.ssthresh.saturating_sub(self.segments);
        if grown < room {
            self.part = total % self.mss;
            self.grow(grown);
            0
        } else {
            self.part = 0;
            self.grow(room);
            total - room * self.mss
        }
    }

    /// One segment more for every `per_increase` segments acked.
    pub(crate) fn avoid(&mut self, per_increase: u64, acked: u64) {
        let needed = per_increase.max(1).saturating_mul(self.mss);
        // A smaller window or a steeper curve may have lowered the bar below what is counted already:
        // that gives one increase, not a burst (Linux does the same).
        if self.credit >= needed {
            self.credit = 0;
            self.grow(1);
        }
        self.credit += acked;
        if self.credit >= needed {
            let steps = self.credit / needed;
            self.credit -= steps * needed;
            self.grow(steps);
        }
    }

    /// Count `acked` bytes towards `needed` segments; `true`, and the count starts again, if what was
    /// counted before suffices (Linux's older way of counting, which Veno keeps).
    pub(crate) fn counted(&mut self, needed: u64, acked: u64) -> bool {
        let enough = self.credit >= needed.saturating_mul(self.mss);
        self.credit = if enough { 0 } else { self.credit + acked };
        enough
    }

    fn forget_parts(&mut self) {
        self.credit = 0;
        self.part = 0;
        self.fraction = 0.0;
    }

    pub(crate) fn grow(&mut self, segments: u64) {
        self.segments = self.segments.saturating_add(segments).min(MAX_SEGMENTS);
    }

    /// The window with its fraction, segments.
    pub(crate) fn exact(&self) -> f64 {
        self.segments as f64 + self.fraction
    }

    /// Grow or shrink by a real number of segments; shrinking ends at `floor`. Fractions add up.
    pub(crate) fn add(&mut self, segments: f64, floor: u64) {
        let floor = self.exact().min(floor as f64);
        let exact = (self.exact() + segments).clamp(floor, MAX_SEGMENTS as f64);
        self.segments = exact as u64;
        self.fraction = exact - self.segments as f64;
    }

    /// Shrink in avoidance by a real number of segments, not below `floor`. Below its threshold the
    /// window would be in slow start, so that follows.
    pub(crate) fn shrink(&mut self, segments: f64, floor: u64) {
        self.add(-segments, floor);
        self.ssthresh = self.ssthresh.min(self.segments.max(MIN_SSTHRESH));
    }

    /// Go on from a window and a threshold in bytes that were worked out elsewhere. What is counted
    /// towards the next increase stays.
    pub(crate) fn adopt(&mut self, cwnd: u64, ssthresh: u64) {
        self.segments = (cwnd / self.mss).clamp(1, MAX_SEGMENTS);
        self.ssthresh = if ssthresh == SSTHRESH_INFINITE {
            u64::MAX
        } else {
            (ssthresh / self.mss).clamp(MIN_SSTHRESH, MAX_SEGMENTS)
        };
    }

    /// Bytes that count towards the next increase.
    pub(crate) fn towards_increase(&self) -> u64 {
        if self.in_slow_start() { self.part } else { self.credit }
    }

    pub(crate) fn set_towards_increase(&mut self, bytes: u64) {
        if self.in_slow_start() {
            self.part = bytes % self.mss;
        } else {
            self.credit = bytes;
        }
    }

    /// The window alone becomes `segments`.
    pub(crate) fn set(&mut self, segments: u64) {
        self.segments = segments.clamp(1, MAX_SEGMENTS);
    }

    /// The threshold alone becomes `segments`.
    pub(crate) fn set_ssthresh(&mut self, segments: u64) {
        self.ssthresh = segments.clamp(MIN_SSTHRESH, MAX_SEGMENTS);
    }

    /// A congestion event: threshold and window both become `segments`.
    pub(crate) fn cut(&mut self, segments: u64) {
        self.ssthresh = segments.clamp(MIN_SSTHRESH, MAX_SEGMENTS);
        self.segments = self.ssthresh;
        self.forget_parts();
    }

    /// A cut that the controller makes of its own accord: as [`cut`](Self::cut), but never a raise.
    pub(crate) fn reduce(&mut self, segments: u64) {
        let before = self.segments;
        self.cut(segments);
        self.segments = self.segments.min(before);
    }

    /// A retransmission timeout: `ssthresh` if it is to be cut, and one segment beyond what is still
    /// in flight, which is the loss window of RFC 5681 where everything was marked lost (Linux).
    pub(crate) fn timeout(&mut self, ssthresh: Option<u64>, inflight: u64) {
        if let Some(segments) = ssthresh {
            self.ssthresh = segments.clamp(MIN_SSTHRESH, MAX_SEGMENTS);
        }
        self.segments = (self.to_segments(inflight) + 1).min(MAX_SEGMENTS);
        self.forget_parts();
    }

    /// The cut was a mistake: back to the saved threshold and at least the saved window. (Linux keeps
    /// the larger threshold, which makes a difference only after a later timeout or idle period.)
    pub(crate) fn undo(&mut self, saved: &Self) {
        self.segments = self.segments.max(saved.segments);
        self.ssthresh = saved.ssthresh;
    }

    /// A threshold far below a window that serves well is stale: at least three quarters of cwnd
    /// (RFC 2861 section 3.1, Linux).
    pub(crate) fn set_ssthresh_at_least_three_quarters(&mut self) {
        if self.ssthresh != u64::MAX {
            self.ssthresh = self.ssthresh.max(self.segments / 2 + self.segments / 4);
        }
    }

    /// Restart after an idle period with at most `restart` bytes (RFC 5681 section 4.1), remembering
    /// three quarters of the old window in `ssthresh` (RFC 2861 section 3.1, Linux).
    pub(crate) fn restart(&mut self, restart: u64) {
        self.set_ssthresh_at_least_three_quarters();
        self.segments = self.segments.min((restart / self.mss).max(1));
        self.forget_parts();
    }
}
