//! The Flow State Exchange over windows: a controller's window stands for the rate that it would send at
//! in a round trip, RFC 8699 divides the sum of rates by priority, and a member's window follows its rate.

use std::collections::BTreeMap;

use super::CouplingInfo;
use super::fse::{self, Fse, FseOptions, Joining, Update};
use super::window::{Id, Sharing};
use crate::{Ack, Congestion, Controller, IdleRestart, Nanos, ParamInfo, Params, Rto, Start, Undo};

pub const NAME: &str = "fse-window";

/// Round-trip time of a member that has none yet.
const UNKNOWN_RTT: Nanos = 100_000_000;

pub(crate) fn info() -> CouplingInfo {
    let mut options = fse::info().options;
    options.push(ParamInfo::choice(
        "rtt",
        &["min", "smoothed"],
        "min",
        "round-trip time that makes a rate of a window: the least one, so that a queue that fills is not \
         taken for a rate that falls, or the smoothed one",
    ));
    CouplingInfo {
        name: NAME,
        summary: "flow state exchange over windows: members share the sum of window / RTT by priority; \
                  with flows whose rate can be set (media) beside them",
        source: "RFC 8699",
        shares: "window",
        options,
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    Box::new(FseWindows {
        fse: Fse::new(FseOptions::new(params)),
        smoothed: params.choice("rtt") == "smoothed",
        members: BTreeMap::new(),
    })
}

#[derive(Clone, Copy, Debug)]
struct Member {
    priority: f64,
    started: bool,
    mss: u64,
    /// Bytes.
    window: f64,
    ssthresh: u64,
    rtt: Nanos,
    /// Its transport is in fast recovery or CWR.
    reducing: bool,
}

struct FseWindows {
    fse: Fse,
    smoothed: bool,
    members: BTreeMap<Id, Member>,
}

impl Member {
    fn rate(&self, window: f64) -> f64 {
        window * 8e9 / self.rtt as f64
    }

    fn bytes(&self) -> u64 {
        let segments = (self.window / self.mss as f64).round();
        segments.max(1.0) as u64 * self.mss
    }
}

impl FseWindows {
    fn set_reducing(&mut self, id: Id, reducing: bool) {
        if let Some(member) = self.members.get_mut(&id) {
            member.reducing = reducing;
        }
    }

    /// Let the controller deal with an event, and the exchange with what it made of its window.
    fn exchange(
        &mut self,
        id: Id,
        now: Nanos,
        inner: &mut dyn Controller,
        event: impl FnOnce(&mut dyn Controller),
    ) {
        let Some(member) = self.members.get(&id).copied().filter(|member| member.started) else {
            return event(inner);
        };
        inner.set_window(member.bytes(), member.ssthresh);
        let before = inner.cwnd();
        event(inner);
        let after = inner.cwnd();
        if let Some(member) = self.members.get_mut(&id) {
            member.ssthresh = inner.ssthresh();
        }
        if after == before {
            return;
        }
        let rate = member.rate(member.window + after as f64 - before as f64);
        let update = Update { rate: rate.max(1.0), desired: f64::INFINITY, rtt: member.rtt };
        set_windows(&mut self.members, id, self.fse.update(now, id, update));
        if let Some(member) = self.members.get(&id) {
            inner.set_window(member.bytes(), member.ssthresh);
        }
    }
}

/// Turn rates of members into windows, after an event at the member `at`.
fn set_windows(members: &mut BTreeMap<Id, Member>, at: Id, rates: &[(Id, f64)]) {
    for &(id, rate) in rates {
        let Some(member) = members.get_mut(&id) else { continue };
        let window = rate * member.rtt as f64 / 8e9;
        if id != at && window < member.window {
            // Or it would grow back in slow start.
            member.ssthresh = member.ssthresh.min((window as u64).max(2 * member.mss));
        }
        member.window = window;
    }
}

impl Sharing for FseWindows {
    fn add(&mut self, id: Id, priority: f64) {
        let member = Member {
            priority,
            started: false,
            mss: 1,
            window: 0.0,
            ssthresh: crate::SSTHRESH_INFINITE,
            rtt: UNKNOWN_RTT,
            reducing: false,
        };
        self.members.insert(id, member);
    }

    fn remove(&mut self, id: Id, _inner: &dyn Controller) {
        self.members.remove(&id);
        self.fse.leave(id);
    }

    fn start(&mut self, id: Id, event: &Start, inner: &mut dyn Controller) {
        inner.on_start(event);
        let Some(member) = self.members.get_mut(&id) else { return };
        member.started = true;
        member.mss = u64::from(event.mss.max(1));
        member.rtt = event.rtt.filter(|&rtt| rtt > 0).unwrap_or(UNKNOWN_RTT);
        member.window = inner.cwnd() as f64;
        member.ssthresh = inner.ssthresh();
        let rate = member.rate(member.window);
        let joining = Joining { priority: member.priority, rate, desired: f64::INFINITY };
        self.fse.join(id, joining);
    }

    fn ack(&mut self, id: Id, ack: &Ack, inner: &mut dyn Controller) {
        if let Some(member) = self.members.get_mut(&id) {
            let rtt = if self.smoothed { ack.srtt } else { ack.min_rtt };
            if rtt > 0 {
                member.rtt = rtt;
            }
        }
        self.exchange(id, ack.now, inner, |inner| inner.on_ack(ack));
    }

    fn congestion(&mut self, id: Id, event: &Congestion, inner: &mut dyn Controller) {
        self.set_reducing(id, true);
        self.exchange(id, event.now, inner, |inner| inner.on_congestion(event));
    }

    fn timeout(&mut self, id: Id, event: &Rto, inner: &mut dyn Controller) {
        self.set_reducing(id, false);
        self.exchange(id, event.now, inner, |inner| inner.on_rto(event));
    }

    fn undo(&mut self, id: Id, event: &Undo, inner: &mut dyn Controller) {
        self.exchange(id, event.now, inner, |inner| inner.on_undo(event));
    }

    fn recovery_exit(&mut self, id: Id, now: Nanos, inner: &mut dyn Controller) {
        self.set_reducing(id, false);
        self.exchange(id, now, inner, |inner| inner.on_recovery_exit(now));
    }

    fn idle_restart(&mut self, id: Id, event: &IdleRestart, inner: &mut dyn Controller) {
        self.exchange(id, event.now, inner, |inner| inner.on_idle_restart(event));
    }

    fn cwnd(&self, id: Id, inner: &dyn Controller) -> u64 {
        match self.members.get(&id) {
            Some(member) if member.started => member.bytes(),
            _ => inner.cwnd(),
        }
    }

    fn ssthresh(&self, id: Id, inner: &dyn Controller) -> u64 {
        match self.members.get(&id) {
            Some(member) if member.reducing => member.bytes(),
            Some(member) if member.started => member.ssthresh,
            _ => inner.ssthresh(),
        }
    }

    fn window(&self) -> Option<f64> {
        let started = self.members.values().filter(|member| member.started);
        Some(started.map(|member| member.window).sum())
    }

    fn add_rate(&mut self, id: Id, joining: Joining) -> bool {
        self.fse.join(id, joining);
        true
    }

    fn update_rate(&mut self, now: Nanos, id: Id, update: Update) {
        set_windows(&mut self.members, id, self.fse.update(now, id, update));
    }

    fn remove_rate(&mut self, id: Id) {
        self.fse.leave(id);
    }

    fn rate(&self, id: Id) -> Option<f64> {
        self.fse.rate(id)
    }
}
