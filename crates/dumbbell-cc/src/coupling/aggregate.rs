//! One window for all members of a group, and each member's share of it.
//!
//! The window grows and shrinks by what the members' own controllers make of their events. A controller
//! steers either the whole window, as if its connection were the only one, or its connection's share.

use std::collections::BTreeMap;

use super::rules::{Restart, Rules, Steers};
use super::window::{Id, Sharing};
use crate::{
    Ack, Congestion, Controller, IdleRestart, Nanos, Params, Rto, SSTHRESH_INFINITE, Start, Undo,
};

/// Windows end here, as a controller's own does.
const MAX_SEGMENTS: u64 = 1 << 31;

/// Members that together are one connection: each one's controller steers the whole window.
pub(super) fn one_connection(params: &Params, weighted: bool) -> Box<dyn Sharing> {
    let rules = Rules {
        steers: Steers::Whole,
        weighted,
        grows_as_one: false,
        cuts_whole: true,
        restart: Restart::Whole,
        lends: true,
        keeps: true,
        idle_halving: 0,
        burst: 0,
    };
    Box::new(Aggregate::new(rules.options(params)))
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Weight of its share.
    weight: f64,
    /// Sum of the weights of those before it that count.
    before: f64,
    mss: u64,
    started: bool,
    /// Has nothing to send and counts for nothing, as it lends its share.
    quiet: bool,
    /// On its own after a timeout.
    alone: bool,
    /// Its transport is in fast recovery or CWR.
    reducing: bool,
    /// Reductions of the group that its controller knows.
    heard: u64,
    /// First byte not acknowledged yet, and the first that was sent after the last reduction.
    una: u64,
    recover: u64,
    /// Bytes that bursts are limited to.
    allowed: u64,
}

impl Member {
    fn counts(&self) -> bool {
        self.started && !self.quiet
    }
}

/// The last reduction of the whole window.
#[derive(Clone, Copy, Debug)]
struct Cut {
    event: Congestion,
    /// The window before, bytes.
    from: f64,
}

/// What a controller made of its window.
struct Change {
    cwnd: (u64, u64),
    ssthresh: (u64, u64),
}

pub(super) struct Aggregate {
    rules: Rules,
    members: BTreeMap<Id, Member>,
    /// Of the members that count.
    weights: f64,
    /// Bytes; 0 before the first member starts.
    cwnd: f64,
    /// Bytes; infinite until slow start has ended.
    ssthresh: f64,
    /// Bytes acknowledged towards the next increase, where controllers steer the whole window.
    counted: u64,
    /// Who caused the reduction that is going on, and whether by a timeout.
    episode: Option<(Id, bool)>,
    /// Window and threshold before that reduction.
    saved: Option<(Id, f64, f64)>,
    cut: Option<Cut>,
    cuts: u64,
    last_active: Nanos,
}

fn bytes(ssthresh: f64) -> u64 {
    if ssthresh.is_finite() { ssthresh as u64 } else { SSTHRESH_INFINITE }
}

fn threshold(bytes: u64) -> f64 {
    if bytes == SSTHRESH_INFINITE { f64::INFINITY } else { bytes as f64 }
}

impl Aggregate {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            members: BTreeMap::new(),
            weights: 0.0,
            cwnd: 0.0,
            ssthresh: f64::INFINITY,
            counted: 0,
            episode: None,
            saved: None,
            cut: None,
            cuts: 0,
            last_active: 0,
        }
    }

    /// Weights have changed.
    fn weigh(&mut self) {
        let mut sum = 0.0;
        for member in self.members.values_mut() {
            member.before = sum;
            if member.counts() {
                sum += member.weight;
            }
        }
        self.weights = sum;
    }

    /// The part of the window that is a member's.
    fn part(&self, member: &Member) -> f64 {
        if member.counts() && self.weights > 0.0 { member.weight / self.weights } else { 0.0 }
    }

    /// A member's share in bytes. Shares are whole segments and add up to those of the window, except
    /// that nobody has less than one: rounded are their sums, not they.
    fn share(&self, member: &Member) -> u64 {
        if !member.counts() {
            return member.mss;
        }
        let segments = (self.cwnd / member.mss as f64).floor();
        let end = |weight: f64| (segments * (weight / self.weights)).round() as u64;
        let (from, to) = (end(member.before), end(member.before + member.weight));
        to.saturating_sub(from).max(1) * member.mss
    }

    fn share_of_ssthresh(&self, member: &Member) -> u64 {
        bytes(
            (self.ssthresh * self.part(member).max(f64::MIN_POSITIVE)).max(2.0 * member.mss as f64),
        )
    }

    fn limited(&self, member: &Member) -> u64 {
        let share = self.share(member);
        if self.rules.burst > 0 { share.min(member.allowed.max(member.mss)) } else { share }
    }

    fn avoiding(&self) -> bool {
        self.cwnd >= self.ssthresh
    }

    fn show(&self, member: &Member, inner: &mut dyn Controller) {
        match self.rules.steers {
            Steers::Whole => {
                inner.set_window(self.cwnd as u64, bytes(self.ssthresh));
                inner.set_counted(self.counted);
            }
            Steers::Share => inner.set_window(self.share(member), self.share_of_ssthresh(member)),
        }
    }

    /// Leave the member's controller with the member's share.
    fn settle(&self, id: Id, inner: &mut dyn Controller) {
        if let Some(member) = self.members.get(&id) {
            inner.set_window(self.limited(member), self.share_of_ssthresh(member));
        }
    }

    /// Let the controller work on the window that it steers.
    fn act(
        &mut self,
        member: &Member,
        inner: &mut dyn Controller,
        event: impl FnOnce(&mut dyn Controller),
    ) -> Change {
        self.show(member, inner);
        let before = (inner.cwnd(), inner.ssthresh());
        event(inner);
        self.counted = inner.counted();
        Change { cwnd: (before.0, inner.cwnd()), ssthresh: (before.1, inner.ssthresh()) }
    }

    /// The window follows what a controller made of its own.
    fn absorb(&mut self, member: &Member, change: &Change) {
        let mut grown = change.cwnd.1 as f64 - change.cwnd.0 as f64;
        if grown > 0.0 {
            if matches!(self.episode, Some((_, false))) {
                grown = 0.0;
            } else if self.rules.grows_as_one && self.avoiding() {
                grown *= self.part(member);
            }
        }
        let most = (MAX_SEGMENTS * member.mss) as f64;
        self.cwnd = (self.cwnd + grown).clamp(member.mss as f64, most);
        if change.ssthresh.1 != change.ssthresh.0 {
            self.ssthresh = if change.cwnd.1 >= change.ssthresh.1 {
                // The first to leave slow start ends it for all.
                self.cwnd
            } else if self.rules.steers == Steers::Whole {
                threshold(change.ssthresh.1)
            } else {
                threshold(change.ssthresh.1) / self.part(member).max(f64::MIN_POSITIVE)
            };
        }
    }

    /// The controller hears of reductions that others caused, so that what it remembers of the last one
    /// (CUBIC's W_max and the start of its curve) is not out of date.
    fn hear(&mut self, id: Id, now: Nanos, inner: &mut dyn Controller) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let heard = std::mem::replace(&mut member.heard, self.cuts);
        let member = *member;
        if heard < self.cuts
            && let Some(Cut { event, from }) = self.cut
        {
            let window = match self.rules.steers {
                Steers::Whole => from,
                Steers::Share => from * self.part(&member),
            };
            inner.set_window(window as u64, bytes(self.ssthresh));
            inner.on_shared_congestion(&Congestion { now, mss: member.mss as u32, ..event });
        }
    }

    /// The member has data to send, whatever it said last.
    fn take_part(&mut self, id: Id) -> Option<&mut Member> {
        if std::mem::take(&mut self.members.get_mut(&id)?.quiet) {
            self.weigh();
        }
        self.members.get_mut(&id)
    }

    fn is_idle(&self, id: Id) -> bool {
        self.members.iter().all(|(&other, member)| other == id || !member.counts())
    }

    fn decay(&mut self, now: Nanos, least: u64) {
        let idle = now.saturating_sub(self.last_active);
        let Some(times) = idle.checked_div(self.rules.idle_halving) else { return };
        if times > 0 && self.cwnd > least as f64 {
            // What the window was is remembered as its threshold (RFC 2861).
            self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
            self.cwnd = (self.cwnd * 0.5_f64.powi(times.min(64) as i32)).max(least as f64);
        }
    }
}

impl Sharing for Aggregate {
    fn add(&mut self, id: Id, priority: f64) {
        let weight = if self.rules.weighted { priority } else { 1.0 };
        self.members.insert(
            id,
            Member {
                weight,
                before: 0.0,
                mss: 1,
                started: false,
                quiet: false,
                alone: false,
                reducing: false,
                heard: self.cuts,
                una: 0,
                recover: 0,
                allowed: 0,
            },
        );
    }

    fn remove(&mut self, id: Id, _inner: &dyn Controller) {
        self.members.remove(&id);
        if self.episode.is_some_and(|(by, _)| by == id) {
            self.episode = None;
        }
        self.weigh();
        if !self.rules.keeps && !self.members.values().any(|member| member.started) {
            *self = Self { members: std::mem::take(&mut self.members), ..Self::new(self.rules) };
        }
    }

    fn start(&mut self, id: Id, event: &Start, inner: &mut dyn Controller) {
        inner.on_start(event);
        let (cwnd, ssthresh) = (inner.cwnd(), threshold(inner.ssthresh()));
        let alone = self.is_idle(id);
        if self.cwnd == 0.0 {
            (self.cwnd, self.ssthresh) = (cwnd as f64, ssthresh);
        } else if alone {
            self.decay(event.now, cwnd);
            self.cwnd = self.cwnd.max(cwnd as f64);
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.mss = u64::from(event.mss.max(1));
            member.started = true;
            member.heard = self.cuts;
            member.allowed = cwnd;
        }
        self.last_active = event.now;
        self.weigh();
        self.settle(id, inner);
    }

    fn ack(&mut self, id: Id, ack: &Ack, inner: &mut dyn Controller) {
        let Some(member) = self.members.get_mut(&id) else { return inner.on_ack(ack) };
        self.last_active = ack.now;
        let quiet = self.rules.lends && ack.app_limited && !ack.cwnd_limited && ack.inflight == 0;
        if quiet != std::mem::replace(&mut member.quiet, quiet) {
            self.weigh();
        }
        let Some(member) = self.members.get_mut(&id) else { return };
        member.una = ack.snd_una;
        if member.heard < self.cuts {
            member.recover = ack.snd_nxt;
        }
        let member = *member;
        if member.alone {
            inner.on_ack(ack);
            let (own, share) = (inner.cwnd(), self.share(&member));
            if own < share.min(inner.ssthresh()) {
                return;
            }
            // It is back. What its slow start has not reached of its share nobody has.
            if own < share {
                self.cwnd -= (share - own) as f64;
                self.ssthresh = self.ssthresh.min(self.cwnd);
            }
            if let Some(member) = self.members.get_mut(&id) {
                member.alone = false;
                member.allowed = own;
            }
        } else {
            self.hear(id, ack.now, inner);
            let now = self.limited(&member);
            let change = self.act(&member, inner, |inner| inner.on_ack(ack));
            self.absorb(&member, &change);
            if let Some(member) = self.members.get_mut(&id) {
                member.allowed = now + ack.acked + self.rules.burst * member.mss;
            }
        }
        self.settle(id, inner);
    }

    fn congestion(&mut self, id: Id, event: &Congestion, inner: &mut dyn Controller) {
        let Some(member) = self.take_part(id) else { return inner.on_congestion(event) };
        member.reducing = true;
        let member = *member;
        if member.alone {
            return inner.on_congestion(event);
        }
        self.hear(id, event.now, inner);
        // What is lost while a reduction goes on is part of the same event; where all members are one
        // connection, so is all that was sent before it.
        let earlier = self.rules.steers == Steers::Whole
            && (member.heard < self.cuts || member.una < member.recover);
        if self.episode.is_none() && !earlier {
            let before = (self.cwnd, self.ssthresh);
            // As if all members had as much in flight.
            let inflight = match self.rules.steers {
                Steers::Whole => (event.inflight as f64 / self.part(&member)).min(self.cwnd) as u64,
                Steers::Share => event.inflight,
            };
            let event = Congestion { inflight, ..*event };
            let change = self.act(&member, inner, |inner| inner.on_congestion(&event));
            let (was, is) = (change.cwnd.0 as f64, change.cwnd.1 as f64);
            self.cwnd = if self.rules.cuts_whole {
                self.cwnd * (is / was).min(1.0)
            } else {
                self.cwnd + (is - was)
            }
            .max(member.mss as f64);
            self.ssthresh = self.cwnd;
            if self.rules.cuts_whole {
                self.episode = Some((id, false));
                self.cuts += 1;
                self.cut = Some(Cut { event, from: before.0 });
                if let Some(member) = self.members.get_mut(&id) {
                    member.heard = self.cuts;
                }
            }
            self.saved = Some((id, before.0, before.1));
        }
        self.settle(id, inner);
    }

    fn timeout(&mut self, id: Id, event: &Rto, inner: &mut dyn Controller) {
        let Some(member) = self.take_part(id) else { return inner.on_rto(event) };
        member.reducing = false;
        let member = *member;
        let before = (self.cwnd, self.ssthresh);
        match self.rules.restart {
            Restart::Whole => {
                // Timeouts of several members are one event.
                let first = event.first && !self.episode.is_some_and(|(by, rto)| rto && by != id);
                let event = Rto { first, inflight: 0, ..*event };
                let change = self.act(&member, inner, |inner| inner.on_rto(&event));
                self.cwnd = member.mss as f64;
                if first {
                    self.ssthresh = threshold(change.ssthresh.1);
                    self.episode = Some((id, true));
                    self.saved = Some((id, before.0, before.1));
                }
            }
            Restart::Share => {
                let change = self.act(&member, inner, |inner| inner.on_rto(event));
                self.cwnd = (self.cwnd + change.cwnd.1 as f64 - change.cwnd.0 as f64)
                    .max(member.mss as f64);
                if event.first {
                    // Its part of the threshold becomes half of its share; a threshold that there was
                    // not yet is taken for the window.
                    let part = self.part(&member);
                    let old = if before.1.is_finite() { before.1 } else { before.0 };
                    let own = match self.rules.steers {
                        Steers::Whole => threshold(change.ssthresh.1) * part,
                        Steers::Share => threshold(change.ssthresh.1),
                    };
                    self.ssthresh = old - part * old + own;
                    self.saved = Some((id, before.0, before.1));
                }
            }
            Restart::Alone => {
                if !member.alone {
                    self.show(&member, inner);
                }
                inner.on_rto(event);
                if let Some(member) = self.members.get_mut(&id) {
                    member.alone = true;
                }
                if self.episode.is_some_and(|(by, _)| by == id) {
                    self.episode = None;
                }
                if self.members.values().any(|member| !member.alone && member.counts()) {
                    return;
                }
                // Nobody is left to say what the path bears: all start again together.
                self.ssthresh = 0.5 * self.cwnd;
                self.cwnd = member.mss as f64;
                self.members.values_mut().for_each(|member| member.alone = false);
            }
        }
        self.settle(id, inner);
    }

    fn undo(&mut self, id: Id, event: &Undo, inner: &mut dyn Controller) {
        inner.on_undo(event);
        if let Some((by, cwnd, ssthresh)) = self.saved
            && by == id
        {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = ssthresh;
            self.saved = None;
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.alone = false;
        }
        self.settle(id, inner);
    }

    fn recovery_exit(&mut self, id: Id, now: Nanos, inner: &mut dyn Controller) {
        if self.episode.is_some_and(|(by, _)| by == id) {
            self.episode = None;
        }
        let Some(member) = self.members.get_mut(&id) else {
            return inner.on_recovery_exit(now);
        };
        member.reducing = false;
        let member = *member;
        if member.alone {
            return inner.on_recovery_exit(now);
        }
        let change = self.act(&member, inner, |inner| inner.on_recovery_exit(now));
        self.absorb(&member, &change);
        self.settle(id, inner);
    }

    fn idle_restart(&mut self, id: Id, event: &IdleRestart, inner: &mut dyn Controller) {
        let idle = self.is_idle(id);
        let Some(member) = self.take_part(id).copied() else {
            return inner.on_idle_restart(event);
        };
        // The others know what the path bears.
        let restart =
            if idle && self.rules.idle_halving == 0 { event.restart_window } else { None };
        let event = IdleRestart { restart_window: restart, ..*event };
        if member.alone {
            return inner.on_idle_restart(&event);
        }
        if idle {
            self.decay(event.now, 10 * member.mss);
        }
        self.last_active = event.now;
        let change = self.act(&member, inner, |inner| inner.on_idle_restart(&event));
        self.absorb(&member, &change);
        self.settle(id, inner);
    }

    fn cwnd(&self, id: Id, inner: &dyn Controller) -> u64 {
        match self.members.get(&id) {
            Some(member) if member.alone => inner.cwnd().min(self.share(member)),
            Some(member) if member.started => self.limited(member),
            _ => inner.cwnd(),
        }
    }

    fn ssthresh(&self, id: Id, inner: &dyn Controller) -> u64 {
        match self.members.get(&id) {
            Some(member) if member.started && !member.alone => {
                if member.reducing {
                    self.limited(member)
                } else {
                    self.share_of_ssthresh(member)
                }
            }
            _ => inner.ssthresh(),
        }
    }

    fn window(&self) -> Option<f64> {
        Some(self.cwnd)
    }
}
