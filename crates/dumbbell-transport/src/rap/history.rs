//! What was sent and is neither acknowledged nor lost.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

use super::receiver::Hole;

/// A packet so many numbers before the highest that has arrived is lost.
const REORDERING: u64 = 3;

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    /// Known to have arrived or to be lost.
    settled: bool,
}

/// Packets that are neither acknowledged nor lost yet, among those in order after the oldest.
#[derive(Debug)]
pub(super) struct History {
    sent: VecDeque<Sent>,
    /// Number of the first in `sent`.
    oldest: u64,
    outstanding: u64,
    /// Losses of packets below this number are of the event that was answered last.
    answered: u64,
    losses: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { sent: VecDeque::new(), oldest: 1, outstanding: 0, answered: 0, losses: 0 }
    }
}

impl History {
    /// Number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.oldest + self.sent.len() as u64
    }

    /// Packets without an ACK that are not lost.
    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Losses of what is outstanding begin no event.
    pub(super) fn answer(&mut self) {
        self.answered = self.next();
    }

    pub(super) fn push(&mut self, at: Nanos) {
        self.sent.push_back(Sent { at, settled: false });
        self.outstanding += 1;
    }

    /// When it was sent, if this was not known to have arrived or to be lost.
    pub(super) fn settle(&mut self, seq: u64) -> Option<Nanos> {
        let sent = self.sent.get_mut(usize::try_from(seq.checked_sub(self.oldest)?).ok()?)?;
        if sent.settled {
            return None;
        }
        sent.settled = true;
        self.outstanding -= 1;
        Some(sent.at)
    }

    /// Whether a loss of this packet begins a new event.
    fn lose(&mut self, seq: u64) -> bool {
        if self.settle(seq).is_none() {
            return false;
        }
        self.losses += 1;
        seq >= self.answered
    }

    fn trim(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.settled) {
            self.sent.pop_front();
            self.oldest += 1;
        }
    }

    /// Give up what was sent until `time`. Whether there is a new loss event.
    pub(super) fn expire(&mut self, time: Nanos) -> bool {
        let mut event = false;
        while self.sent.front().is_some_and(|sent| sent.settled || sent.at <= time) {
            event |= self.lose(self.oldest);
            self.trim();
        }
        event
    }

    /// Take in what an ACK says. Whether there is a new loss event.
    pub(super) fn acknowledge(&mut self, hole: &Hole) -> bool {
        let mut event = false;
        for seq in self.oldest..self.next().min(hole.last.saturating_add(1)) {
            if hole.has(seq) {
                self.settle(seq);
            } else if hole.last - seq >= REORDERING {
                event |= self.lose(seq);
            }
        }
        self.trim();
        event
    }
}
