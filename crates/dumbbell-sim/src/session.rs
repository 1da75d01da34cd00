//! Flows of transports other than TCP: both ends in one slot, and what the engine does with them.

use dumbbell_transport::Packet;
use dumbbell_transport::flow::{Ends, FlowReceiver, FlowSender, Pair};
use dumbbell_transport::registry::Given;

use crate::build::given;
use crate::config::Transport;
use crate::engine::{Direction, Engine, Place, TimerKind, direction, timer_id};
use crate::entry::Completion;
use crate::run::RunError;

/// The timers of a session; each has at most one live entry in the timer heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Sender = 0,
    Receiver = 1,
}

pub(crate) struct Session {
    pub(crate) sender: Box<dyn FlowSender>,
    pub(crate) receiver: Box<dyn FlowReceiver>,
    pub(crate) place: Place,
    generation: u16,
    pub(crate) open: bool,
    /// Place among the open sessions of its flow.
    open_index: u32,
    /// Time of the live heap entry of each timer, `u64::MAX` if none.
    scheduled: [u64; 2],
    started: u64,
    /// Bytes after which the transfer is complete; 0 for none.
    size: u64,
    completed: bool,
}

impl Session {
    fn deadline(&self, end: End) -> u64 {
        match end {
            _ if !self.open => u64::MAX,
            End::Sender => self.sender.next_timeout(),
            End::Receiver => self.receiver.next_timeout(),
        }
    }
}

impl Engine<'_> {
    /// Open a session of `size` bytes; 0 for one that the source writes to.
    pub(crate) fn open_session(&mut self, index: u32, size: u64) {
        let now = self.now;
        let way = self.entries[index as usize].way;
        let place = self.place(index, way);
        let entry = &mut self.entries[index as usize];
        let Some(recipe) = &entry.transport else { return };
        let slot =
            entry.free.pop_back().map_or(self.sessions.len() as u32, |(_, free_slot)| free_slot);
        let generation = self
            .sessions
            .get(slot as usize)
            .map_or(0, |session| session.generation.wrapping_add(1));
        let ends = Ends {
            flow: slot,
            generation,
            dscp: entry.config.dscp,
            seed: entry.cc_seed.wrapping_add(entry.connections),
        };
        let given = match &entry.config.transport {
            Transport::Other(other) if entry.custom => given(self.custom, other, ends.seed),
            _ => None,
        };
        let given = match given.unwrap_or(Ok(Given::Nothing)) {
            Ok(given) => given,
            Err(message) => {
                let error = RunError::config(format!("flows.{}.cc", entry.id()), message);
                self.failure.get_or_insert(error);
                return;
            }
        };
        let Pair { sender, receiver } = recipe.build_with(&ends, given);
        let mut session = Session {
            sender,
            receiver,
            place,
            generation,
            open: true,
            open_index: entry.open.len() as u32,
            scheduled: [u64::MAX; 2],
            started: now,
            size,
            completed: false,
        };
        entry.connections += 1;
        entry.slot = Some(slot);
        entry.open.push(slot);
        let first_write = if size > 0 { size } else { entry.first_write() };
        session.sender.on_start(now);
        if first_write > 0 {
            session.sender.write(now, first_write);
        }
        if (slot as usize) < self.sessions.len() {
            self.sessions[slot as usize] = session;
        } else {
            self.sessions.push(session);
        }
        self.on_session_change(index, Some(slot));
        self.transmit_session(slot);
    }

    pub(crate) fn close_session(&mut self, slot: u32) {
        let session = &mut self.sessions[slot as usize];
        session.open = false;
        let entry = &mut self.entries[session.place.entry as usize];
        entry.ended.add(&session.sender.stats());
        entry.free.push_back((self.now, slot));
        let at = session.open_index;
        entry.open.swap_remove(at as usize);
        if let Some(&moved) = entry.open.get(at as usize) {
            self.sessions[moved as usize].open_index = at;
        }
        self.on_session_change(self.sessions[slot as usize].place.entry, None);
    }

    pub(crate) fn write_to_session(&mut self, slot: u32, bytes: u64) {
        let now = self.now;
        let session = &mut self.sessions[slot as usize];
        if session.open {
            session.sender.write(now, bytes);
            self.transmit_session(slot);
        }
    }

    /// A packet of a session reached its end point.
    pub(crate) fn on_session_packet(&mut self, packet: &Packet) {
        let slot = packet.flow;
        let now = self.now;
        let session = &mut self.sessions[slot as usize];
        let entry = &mut self.entries[session.place.entry as usize];
        let known = session.open && packet.generation == session.generation;
        if direction(packet.kind) == Direction::Reverse {
            entry.acks_arrived += 1;
            if !known {
                return;
            }
            session.sender.on_feedback(now, packet, session.receiver.report(packet));
            if let Some(rtt) = session.sender.rtt_sample() {
                entry.record_rtt(now, rtt);
            }
            self.transmit_session(slot);
            let session = &self.sessions[slot as usize];
            if session.completed && session.sender.is_idle() {
                self.close_session(slot);
            }
            return;
        }
        entry.arrived += 1;
        entry.marked_arrived += u64::from(packet.is_ce());
        if !known {
            return;
        }
        if entry.membership.is_some() {
            let flow = session.place.entry as usize;
            self.observe(flow, packet);
        }
        let session = &mut self.sessions[slot as usize];
        let entry = &mut self.entries[session.place.entry as usize];
        let before = session.receiver.delivered_bytes();
        session.receiver.on_packet(now, packet);
        let after = session.receiver.delivered_bytes();
        entry.delivered_bytes += after - before;
        if after > before && session.size > 0 && !session.completed && after >= session.size {
            session.completed = true;
            entry.completions.push(Completion {
                start: session.started,
                bytes: session.size,
                duration: now - session.started,
            });
        }
        self.answer_session(slot);
    }

    pub(crate) fn on_session_timer(&mut self, time: u64, slot: u32, end: End) {
        let session = &mut self.sessions[slot as usize];
        if session.scheduled[end as usize] != time {
            return;
        }
        session.scheduled[end as usize] = u64::MAX;
        if session.deadline(end) > time {
            return self.arm_session(slot, end);
        }
        match end {
            End::Sender => {
                session.sender.on_timeout(time);
                self.transmit_session(slot);
            }
            End::Receiver => {
                session.receiver.on_timeout(time);
                self.answer_session(slot);
            }
        }
    }

    /// After an event at the sender of a session: send all that it may send now.
    pub(crate) fn transmit_session(&mut self, slot: u32) {
        self.exchange(slot);
        self.pump_session(slot);
    }

    pub(crate) fn pump_session(&mut self, slot: u32) {
        let now = self.now;
        let entry = self.sessions[slot as usize].place.entry as usize;
        let config = self.entries[entry].config;
        while let Some(mut packet) = self.sessions[slot as usize].sender.poll_transmit(now) {
            self.entries[entry].sent += 1;
            packet.set_hosts(config.source_host, config.destination_host);
            self.send(packet);
        }
        if self.entries[entry].custom
            && let Some(message) = self.sessions[slot as usize].sender.take_error()
        {
            self.fail_controller(entry, message);
        }
        self.arm_session(slot, End::Sender);
    }

    /// Send all that the receiver of a session has to say.
    fn answer_session(&mut self, slot: u32) {
        let now = self.now;
        let entry = self.sessions[slot as usize].place.entry as usize;
        while let Some(packet) = self.sessions[slot as usize].receiver.poll_transmit(now) {
            self.entries[entry].acks_sent += 1;
            self.send(packet);
        }
        self.arm_session(slot, End::Receiver);
    }

    fn arm_session(&mut self, slot: u32, end: End) {
        let session = &mut self.sessions[slot as usize];
        // A deadline that has passed is met now.
        let deadline = session.deadline(end).max(self.now);
        if deadline < session.scheduled[end as usize] {
            session.scheduled[end as usize] = deadline;
            let kind = match end {
                End::Sender => TimerKind::SessionSender,
                End::Receiver => TimerKind::SessionReceiver,
            };
            self.timers.push(deadline, timer_id(kind, slot));
        }
    }
}
