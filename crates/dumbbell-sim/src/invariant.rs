//! What must hold in every run: conservation, capacity, and that no flow waits for nothing.

use dumbbell_queue::Dequeued;
use dumbbell_transport::{Kind, Packet};

use crate::config::Capacity;
use crate::connection::Phase;
use crate::engine::{Direction, Engine, direction};
use crate::link::{Discipline, Server};
use crate::run::RunError;
use crate::session::Session;

/// Packets found in the network for one flow or probe.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    forward: u64,
    reverse: u64,
}

impl Engine<'_> {
    /// A flow with data outstanding or waiting must have a timer, or it would be silent for ever.
    pub(crate) fn watch_for_stalls(&mut self) {
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            if connection.phase != Phase::Established {
                continue;
            }
            let sender = &connection.sender;
            let waits =
                sender.packets_out() > 0 || sender.unsent() > 0 && !sender.is_rwnd_limited();
            if waits && sender.next_timeout() == u64::MAX {
                let id = self.entries[connection.entry as usize].id().to_owned();
                let out = sender.packets_out();
                self.fail_invariant(format!(
                    "flow {id} is stalled: {out} segments outstanding and no timer"
                ));
                return;
            }
        }
        let silent = |session: &&Session| {
            session.open && !session.sender.is_idle() && session.sender.next_timeout() == u64::MAX
        };
        if let Some(session) = self.sessions.iter().find(silent) {
            let id = self.entries[session.place.entry as usize].id().to_owned();
            self.fail_invariant(format!("flow {id} is stalled: data to send and no timer"));
        }
    }

    /// Nothing leaves a link above the integral of its capacity: one packet may be in transmission,
    /// and a shaper may have saved up its burst.
    pub(crate) fn check_capacity(&mut self, index: usize) {
        let Some(bits) = self.recorder.capacity_bits(index, 0, self.now) else {
            return;
        };
        let (_, bytes) = self.links[index].departed(self.now);
        let burst = match self.config.links[index].capacity {
            Capacity::Constant { shaper_burst_bytes, .. } => shaper_burst_bytes.unwrap_or(0),
            _ => 0,
        };
        let slack = f64::from(u16::MAX) + 8.0 * f64::from(burst);
        if bytes as f64 * 8.0 > bits + slack {
            let id = &self.config.links[index].id;
            self.fail_invariant(format!("link {id} sent {bytes} bytes, above its capacity"));
        }
    }

    /// Packets sent = delivered + dropped + in flight, for each queue and each flow. Empties the
    /// queues, so it must be the last thing done to them.
    pub(crate) fn check_conservation(&mut self) -> Result<(), RunError> {
        let now = self.now;
        let fail = |message: String| Err(RunError::Invariant { now_ns: now, message });
        for (index, link) in self.links.iter_mut().enumerate() {
            let id = &self.config.links[index].id;
            let (packets, _) = link.departed(now);
            let held = link.held(now);
            let counters = link.counters;
            if counters.offered != packets + counters.drops + held {
                return fail(format!(
                    "link {id}: {} packets offered, {packets} sent, {} dropped, {held} held",
                    counters.offered, counters.drops
                ));
            }
            let queue = link.queue_counters();
            let (backlog, _) = link.backlog(now);
            if queue.offered != queue.dequeued + queue.dropped() + backlog {
                return fail(format!("queue of link {id}: {queue:?} with a backlog of {backlog}"));
            }
        }
        let mut flows = vec![Found::default(); self.entries.len()];
        let mut probes = vec![Found::default(); self.probes.len()];
        for packet in self.packets_in_network() {
            let found = match packet.kind {
                Kind::Ping | Kind::Pong => &mut probes[packet.flow as usize],
                _ => &mut flows[self.entry_of(&packet)],
            };
            match direction(packet.kind) {
                Direction::Forward => found.forward += 1,
                Direction::Reverse => found.reverse += 1,
            }
        }
        for (entry, found) in self.entries.iter().zip(&flows) {
            let forward = entry.arrived + entry.dropped + found.forward;
            let reverse = entry.acks_arrived + entry.acks_dropped + found.reverse;
            if entry.sent != forward || entry.acks_sent != reverse {
                return fail(format!(
                    "flow {}: sent {} and {}, found {forward} and {reverse}",
                    entry.id(),
                    entry.sent,
                    entry.acks_sent
                ));
            }
        }
        for (probe, found) in self.probes.iter().zip(&probes) {
            let created = probe.sent + probe.echoed + probe.duplicated;
            if created != probe.arrived + probe.dropped + found.forward + found.reverse {
                return fail("a probe's packets are not conserved".into());
            }
        }
        Ok(())
    }

    /// Every packet between two end points.
    fn packets_in_network(&mut self) -> Vec<Packet> {
        let mut packets: Vec<Packet> =
            self.lines.iter().flat_map(|line| line.pipe.packets()).copied().collect();
        for link in &mut self.links {
            let Discipline::Stored(stored) = &mut link.discipline else {
                continue;
            };
            match &mut stored.server {
                Server::Constant { sending, .. } => packets.extend(*sending),
                Server::Trace { partial, .. } => packets.extend(partial.map(|p| p.0)),
            }
            let mut dropped = Vec::new();
            let mut now = self.now;
            loop {
                match stored.queue.dequeue(now, &mut dropped) {
                    Dequeued::Packet(packet) => packets.push(packet),
                    Dequeued::Wait(until) if until > now => now = until,
                    Dequeued::Wait(_) | Dequeued::Empty => break,
                }
            }
            packets.extend(dropped.into_iter().map(|(packet, _)| packet));
        }
        packets
    }
}
