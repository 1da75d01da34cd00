//! What happens at set times.

use super::{Engine, TIMER_MASK, TIMER_SHIFT, TimerKind};
use crate::config::Change;
use crate::connection::{ConnectionTimer, Phase};
use crate::link::{Discipline, Server};
use crate::session::End;

impl Engine<'_> {
    pub(super) fn on_timer(&mut self, time: u64, id: u32) {
        let index = id & TIMER_MASK;
        let timer = match id >> TIMER_SHIFT {
            k if k == TimerKind::Sender as u32 => ConnectionTimer::Sender,
            k if k == TimerKind::Pacing as u32 => ConnectionTimer::Pacing,
            k if k == TimerKind::DelayedAck as u32 => ConnectionTimer::DelayedAck,
            k if k == TimerKind::LinkChange as u32 => return self.on_link_change(index),
            k if k == TimerKind::Source as u32 => return self.on_source_timer(index),
            k if k == TimerKind::Probe as u32 => return self.on_probe_timer(index),
            k if k == TimerKind::Mark as u32 => return self.on_mark(index),
            k if k == TimerKind::User as u32 => return self.on_user_timer(index),
            k if k == TimerKind::UserTick as u32 => return self.on_user_tick(),
            k if k == TimerKind::Coupling as u32 => return self.on_coupling_timer(index),
            k if k == TimerKind::SessionSender as u32 => {
                return self.on_session_timer(time, index, End::Sender);
            }
            k if k == TimerKind::SessionReceiver as u32 => {
                return self.on_session_timer(time, index, End::Receiver);
            }
            _ => return self.on_tick(),
        };
        self.on_connection_timer(time, index, timer);
    }

    pub(super) fn on_connection_timer(&mut self, time: u64, slot: u32, timer: ConnectionTimer) {
        let connection = &mut self.connections[slot as usize];
        if connection.scheduled[timer as usize] != time {
            return;
        }
        connection.scheduled[timer as usize] = u64::MAX;
        if connection.deadline(timer) > time {
            self.arm(slot, timer);
            return;
        }
        if let Phase::SynSent { .. } = connection.phase {
            self.send_syn(slot);
            return;
        }
        if timer == ConnectionTimer::DelayedAck {
            if let Some(ack) = connection.receiver.on_timeout(time) {
                self.send_ack(ack);
            }
            self.arm(slot, timer);
            return;
        }
        connection.sender.on_timeout(time);
        let entry = &self.entries[connection.entry as usize];
        let membership = entry.membership;
        if entry.custom {
            self.poll_controller_error(slot);
        }
        self.transmit(slot);
        if let Some(at) = membership {
            self.take_rates(at, None);
        }
    }

    pub(crate) fn send_syn(&mut self, slot: u32) {
        let now = self.now;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        let (timestamps, tries) = match entry.tcp() {
            Some(tcp) => (tcp.timestamps, tcp.syn_tries),
            None => (false, None),
        };
        if tries.is_some_and(|tries| connection.has_tried(tries)) {
            return self.on_connection_refused(slot);
        }
        if let Some(syn) = connection.syn(now, slot, timestamps) {
            entry.sent += 1;
            self.count_syn(slot);
            self.send(syn);
        }
        self.arm(slot, ConnectionTimer::Sender);
    }

    pub(super) fn on_link_change(&mut self, index: u32) {
        let (link, change) = self.change(index);
        let now = self.now;
        let state = &mut self.links[link];
        if let Some(bps) = change.bps {
            self.recorder.on_rate_change(link, now, bps);
            if let Discipline::Stored(stored) = &mut state.discipline
                && let Server::Constant { transmitter, busy, .. } = &mut stored.server
            {
                let before = transmitter.free_at();
                transmitter.change(bps, now);
                if *busy && transmitter.free_at() != before {
                    self.hops.push(transmitter.free_at(), link as u32);
                }
            }
        }
        if let Some(delay) = change.delay_ns {
            state.delay = delay;
        }
        if let Some(loss) = change.loss
            && let Some(impairment) = &mut state.impairment
        {
            impairment.loss.set_law(loss);
        }
    }

    /// The `index`-th of all changes, counted over the links in order.
    pub(super) fn change(&self, index: u32) -> (usize, Change) {
        let mut index = index as usize;
        for (link, config) in self.config.links.iter().enumerate() {
            if index < config.changes.len() {
                return (link, config.changes[index].clone());
            }
            index -= config.changes.len();
        }
        unreachable!("change timers are made from the same list")
    }
}
