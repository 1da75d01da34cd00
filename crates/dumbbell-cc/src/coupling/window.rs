//! Windows that TCP connections of one host share.
//!
//! A member wraps the controller of one connection. The group decides what that controller sees as its
//! window and what becomes of the window that it works out, so the transport needs to know nothing: it
//! reads the member's window as it would the controller's. A change that one member causes holds for
//! the others from their next ACK on, which is when a transport looks at its window.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::fse::{Joining, Update};
use super::{CouplingInfo, cm, ctrltcp, e_tcp, efcm, fse_window, tcb};
use crate::registry::find;
use crate::{
    Ack, BuildError, Congestion, Controller, EcnMode, IdleRestart, Lost, Nanos, Params,
    RecoveryStyle, Rto, Start, Undo,
};

/// A member of a group.
pub(crate) type Id = u32;

/// What a group makes of the events of its members. By default a member is as without a group.
///
/// `inner` is the member's own controller, which hears of an event from here only.
pub(crate) trait Sharing: Send {
    /// A connection is to be opened; it takes part from [`start`](Self::start) on.
    fn add(&mut self, id: Id, priority: f64);

    /// The connection has closed.
    fn remove(&mut self, id: Id, inner: &dyn Controller);

    fn start(&mut self, id: Id, event: &Start, inner: &mut dyn Controller);

    fn ack(&mut self, _id: Id, ack: &Ack, inner: &mut dyn Controller) {
        inner.on_ack(ack);
    }

    fn congestion(&mut self, _id: Id, event: &Congestion, inner: &mut dyn Controller) {
        inner.on_congestion(event);
    }

    fn timeout(&mut self, _id: Id, event: &Rto, inner: &mut dyn Controller) {
        inner.on_rto(event);
    }

    fn undo(&mut self, _id: Id, event: &Undo, inner: &mut dyn Controller) {
        inner.on_undo(event);
    }

    fn recovery_exit(&mut self, _id: Id, now: Nanos, inner: &mut dyn Controller) {
        inner.on_recovery_exit(now);
    }

    fn idle_restart(&mut self, _id: Id, event: &IdleRestart, inner: &mut dyn Controller) {
        inner.on_idle_restart(event);
    }

    fn cwnd(&self, _id: Id, inner: &dyn Controller) -> u64 {
        inner.cwnd()
    }

    fn ssthresh(&self, _id: Id, inner: &dyn Controller) -> u64 {
        inner.ssthresh()
    }

    /// Bytes that all members together may have in flight; `None` if the group knows no such limit.
    fn window(&self) -> Option<f64> {
        None
    }

    /// A flow whose rate can be set joins; false if the group knows windows only.
    fn add_rate(&mut self, _id: Id, _joining: Joining) -> bool {
        false
    }

    /// Such a flow has computed a rate.
    fn update_rate(&mut self, _now: Nanos, _id: Id, _update: Update) {}

    /// Such a flow leaves.
    fn remove_rate(&mut self, _id: Id) {}

    /// The rate that such a flow has, bits per second.
    fn rate(&self, _id: Id) -> Option<f64> {
        None
    }
}

struct Entry {
    name: &'static str,
    info: fn() -> CouplingInfo,
    build: fn(&Params) -> Box<dyn Sharing>,
}

const KINDS: &[Entry] = &[
    Entry { name: cm::NAME, info: cm::info, build: cm::build },
    Entry { name: ctrltcp::NAME, info: ctrltcp::info, build: ctrltcp::build },
    Entry { name: e_tcp::NAME, info: e_tcp::info, build: e_tcp::build },
    Entry { name: efcm::NAME, info: efcm::info, build: efcm::build },
    Entry { name: fse_window::NAME, info: fse_window::info, build: fse_window::build },
    Entry { name: tcb::NAME, info: tcb::info, build: tcb::build },
];

/// Kinds of coupling that share windows.
pub(super) fn list() -> impl Iterator<Item = CouplingInfo> {
    KINDS.iter().map(|entry| (entry.info)())
}

struct State {
    sharing: Box<dyn Sharing>,
    next: Id,
}

/// Connections that share what they know of their path.
#[derive(Clone)]
pub struct Group {
    kind: &'static str,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    /// A group of the given kind without members; `options` in canonical units.
    ///
    /// # Errors
    /// An unknown kind or option (with the nearest known name), or a value outside its range.
    pub fn new(kind: &str, options: &Map<String, Value>) -> Result<Self, BuildError> {
        let entry = find(KINDS, |entry| entry.name, kind)
            .map_err(|hint| BuildError::UnknownCoupling { kind: kind.into(), hint })?;
        let params = Params::check(entry.name, &(entry.info)().options, options)?;
        let state = State { sharing: (entry.build)(&params), next: 0 };
        Ok(Self { kind: entry.name, state: Arc::new(Mutex::new(state)) })
    }

    /// A connection whose own controller is `inner` joins. It takes part from its start until it is
    /// closed or dropped. Of `priority` (positive) some kinds make no use.
    ///
    /// # Errors
    /// A controller whose window cannot be set.
    pub fn join(
        &self,
        inner: Box<dyn Controller>,
        priority: f64,
    ) -> Result<Box<dyn Controller>, BuildError> {
        if !inner.takes_window() {
            return Err(BuildError::NotCoupled { kind: inner.name(), coupling: self.kind });
        }
        let mut state = lock(&self.state);
        let id = state.next;
        state.next = id.wrapping_add(1);
        let priority = if priority.is_finite() { priority.max(1e-9) } else { 1.0 };
        state.sharing.add(id, priority);
        drop(state);
        Ok(Box::new(Member { inner, id, state: Arc::clone(&self.state), left: false }))
    }

    /// A flow whose rate can be set joins beside the connections, media beside data: by which number
    /// the group knows it, `None` if it knows windows only.
    pub fn join_rate(&self, joining: Joining) -> Option<u32> {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next = id.wrapping_add(1);
        state.sharing.add_rate(id, joining).then_some(id)
    }

    /// Such a flow has computed a rate. What becomes of it, and of other such flows, [`Self::rate`] has.
    pub fn update_rate(&self, now: Nanos, id: u32, update: Update) {
        lock(&self.state).sharing.update_rate(now, id, update);
    }

    /// Such a flow leaves.
    pub fn leave_rate(&self, id: u32) {
        lock(&self.state).sharing.remove_rate(id);
    }

    /// The rate that such a flow is to have now, bits per second.
    pub fn rate(&self, id: u32) -> Option<f64> {
        lock(&self.state).sharing.rate(id)
    }

    /// Bytes that all members together may have in flight; `None` if there is no such limit.
    pub fn window(&self) -> Option<f64> {
        lock(&self.state).sharing.window()
    }
}

/// The controller of a connection in a group.
struct Member {
    inner: Box<dyn Controller>,
    id: Id,
    state: Arc<Mutex<State>>,
    left: bool,
}

impl Member {
    /// Let the group deal with an event.
    fn share(&mut self, deal: impl FnOnce(&mut dyn Sharing, Id, &mut dyn Controller)) {
        deal(&mut *lock(&self.state).sharing, self.id, &mut *self.inner);
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.left, true) {
            self.share(|group, id, inner| group.remove(id, inner));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Controller for Member {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_start(&mut self, event: &Start) {
        self.share(|group, id, inner| group.start(id, event, inner));
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.share(|group, id, inner| group.ack(id, ack, inner));
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.share(|group, id, inner| group.congestion(id, event, inner));
    }

    fn on_rto(&mut self, event: &Rto) {
        self.share(|group, id, inner| group.timeout(id, event, inner));
    }

    fn on_undo(&mut self, event: &Undo) {
        self.share(|group, id, inner| group.undo(id, event, inner));
    }

    fn on_recovery_exit(&mut self, now: Nanos) {
        self.share(|group, id, inner| group.recovery_exit(id, now, inner));
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.share(|group, id, inner| group.idle_restart(id, event, inner));
    }

    fn on_close(&mut self, _now: Nanos) {
        self.leave();
    }

    fn on_sent(&mut self, now: Nanos, bytes: u32, inflight: u64) {
        self.inner.on_sent(now, bytes, inflight);
    }

    fn wants_sent(&self) -> bool {
        self.inner.wants_sent()
    }

    fn on_lost(&mut self, event: &Lost) {
        self.inner.on_lost(event);
    }

    fn wants_lost(&self) -> bool {
        self.inner.wants_lost()
    }

    fn ecn_mode(&self) -> EcnMode {
        self.inner.ecn_mode()
    }

    fn responds_to_marks(&self) -> bool {
        self.inner.responds_to_marks()
    }

    fn requested_rate(&self) -> Option<f64> {
        self.inner.requested_rate()
    }

    fn cwnd(&self) -> u64 {
        lock(&self.state).sharing.cwnd(self.id, &*self.inner)
    }

    fn ssthresh(&self) -> u64 {
        lock(&self.state).sharing.ssthresh(self.id, &*self.inner)
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.inner.pacing_rate()
    }

    fn recovery_style(&self) -> RecoveryStyle {
        self.inner.recovery_style()
    }

    fn phase(&self) -> &'static str {
        self.inner.phase()
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        self.inner.record(out);
        if let Some(window) = lock(&self.state).sharing.window() {
            out("group_window_bytes", window);
        }
    }

    fn take_error(&mut self) -> Option<String> {
        self.inner.take_error()
    }
}
