//! Packets at their end points, and what the end points send.

use dumbbell_transport::{Kind, Packet};

use super::capture::host;
use super::{Direction, Engine, Place, TimerKind, direction, timer_id};
use crate::connection::{ConnectionTimer, NO_USER, Phase};
use crate::output::Output;
use crate::run::RunError;

impl Engine<'_> {
    /// A packet reached its end point.
    #[inline]
    pub(super) fn deliver(&mut self, packet: Packet) {
        if self.capturing {
            let end = match direction(packet.kind) {
                Direction::Forward => Direction::Reverse,
                Direction::Reverse => Direction::Forward,
            };
            self.capture(host(end), "receive", &packet);
        }
        match packet.kind {
            Kind::Data => self.on_data(&packet),
            Kind::Ack => self.on_ack(&packet),
            kind if kind.is_other() => self.on_session_packet(&packet),
            _ => self.on_control(&packet),
        }
    }

    #[inline]
    pub(super) fn on_data(&mut self, packet: &Packet) {
        let slot = packet.flow;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        entry.arrived += 1;
        entry.marked_arrived += u64::from(packet.is_ce());
        if packet.generation != connection.generation || connection.phase == Phase::Closed {
            return;
        }
        if packet.timestamp < connection.last_arrival {
            if self.ways[self.places[slot as usize].way as usize].ordered {
                self.fail_invariant(format!("flow slot {slot}: data overtook data"));
                return;
            }
        } else {
            connection.last_arrival = packet.timestamp;
        }
        if entry.membership.is_some() {
            let flow = connection.entry as usize;
            self.observe(flow, packet);
        }
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        let before = connection.receiver.bytes_in_order();
        let ack = connection.receiver.on_data(self.now, packet);
        let after = connection.receiver.bytes_in_order();
        entry.delivered_bytes += after - before;
        // Only with progress: a needless retransmission must not complete a transfer twice.
        let finished = after > before
            && connection.size > 0
            && !connection.completed
            && after >= connection.size;
        // Also with an ACK: one that was held back may leave while another is held.
        if connection.receiver.next_timeout() != u64::MAX {
            self.arm(slot, ConnectionTimer::DelayedAck);
        }
        if let Some(ack) = ack {
            self.send_ack(ack);
        }
        if finished {
            self.on_transfer_complete(slot);
        }
    }

    #[inline]
    pub(super) fn send_ack(&mut self, ack: Packet) {
        let entry = self.places[ack.flow as usize].entry as usize;
        self.entries[entry].acks_sent += 1;
        self.send(ack);
    }

    #[inline]
    pub(super) fn on_ack(&mut self, packet: &Packet) {
        let slot = packet.flow;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        entry.acks_arrived += 1;
        if packet.generation != connection.generation || connection.phase != Phase::Established {
            return;
        }
        connection.sender.on_ack(self.now, packet);
        if connection.user != NO_USER {
            connection.count_increase();
        }
        if let Some(rtt) = connection.sender.rtt_sample() {
            entry.record_rtt(self.now, rtt);
        }
        let membership = entry.membership;
        if entry.custom {
            self.poll_controller_error(slot);
        }
        self.transmit(slot);
        self.on_progress(slot);
        if let Some(at) = membership {
            self.take_rates(at, None);
        }
    }

    /// Send all that the connection may send now, and re-arm its timers.
    #[inline]
    pub(crate) fn transmit(&mut self, slot: u32) {
        let now = self.now;
        let Place { entry, forward, .. } = self.places[slot as usize];
        let entry = entry as usize;
        let config = self.entries[entry].config;
        let hosts = (config.source_host, config.destination_host);
        // All packets take the same first hop: look it up once.
        let first = self.routes[forward as usize];
        let mut sent = 0;
        while let Some(mut packet) = self.connections[slot as usize].sender.poll_transmit(now) {
            sent += 1;
            packet.set_hosts(hosts.0, hosts.1);
            if first.is_leg() || self.capturing {
                self.send(packet);
            } else {
                packet.hop = 1;
                self.offer(first, packet);
            }
        }
        self.entries[entry].sent += sent;
        self.arm(slot, ConnectionTimer::Sender);
        self.arm(slot, ConnectionTimer::Pacing);
    }

    /// Make sure that the timer heap wakes this connection no later than its deadline.
    #[inline]
    pub(crate) fn arm(&mut self, slot: u32, timer: ConnectionTimer) {
        let connection = &mut self.connections[slot as usize];
        let deadline = connection.deadline(timer);
        if deadline < connection.scheduled[timer as usize] {
            connection.scheduled[timer as usize] = deadline;
            self.push_timer(slot, timer, deadline);
        }
    }

    fn push_timer(&mut self, slot: u32, timer: ConnectionTimer, deadline: u64) {
        let kind = match timer {
            ConnectionTimer::Sender => TimerKind::Sender,
            ConnectionTimer::Pacing => TimerKind::Pacing,
            ConnectionTimer::DelayedAck => TimerKind::DelayedAck,
        };
        self.timers.push(deadline, timer_id(kind, slot));
    }

    pub(super) fn on_control(&mut self, packet: &Packet) {
        match packet.kind {
            Kind::Ping | Kind::Pong => return self.on_probe(packet),
            Kind::Datagram => return self.on_datagram(packet),
            _ => {}
        }
        let slot = packet.flow;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        if direction(packet.kind) == Direction::Forward {
            entry.arrived += 1;
        } else {
            entry.acks_arrived += 1;
        }
        if packet.generation != connection.generation || connection.phase == Phase::Closed {
            return;
        }
        match packet.kind {
            Kind::Syn => {
                let timestamps = entry.tcp().is_some_and(|tcp| tcp.timestamps);
                let mut reply = connection.control(Kind::SynAck, self.now, slot, timestamps);
                reply.timestamp = packet.timestamp;
                self.send_ack(reply);
            }
            Kind::SynAck => {
                if let Phase::SynSent { tries, .. } = connection.phase {
                    let rtt = (tries == 1).then(|| self.now - packet.timestamp);
                    self.establish(slot, rtt);
                }
            }
            Kind::Request => self.on_request(slot),
            _ => {}
        }
    }

    /// The connection is open: let the application write.
    pub(crate) fn establish(&mut self, slot: u32, rtt: Option<u64>) {
        let connection = &mut self.connections[slot as usize];
        connection.phase = Phase::Established;
        connection.established = self.now;
        connection.sender.on_established(self.now, rtt);
        let size = connection.size;
        let entry = &mut self.entries[connection.entry as usize];
        let first_write = if size > 0 { size } else { entry.first_write() };
        if entry.custom {
            self.poll_controller_error(slot);
        }
        if first_write > 0 {
            self.connections[slot as usize].sender.write(first_write);
        }
        self.count_connected(slot);
        self.on_established(slot);
        self.transmit(slot);
    }

    pub(super) fn poll_controller_error(&mut self, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        if let Some(message) = connection.sender.controller_mut().take_error() {
            let entry = connection.entry as usize;
            self.fail_controller(entry, message);
        }
    }

    /// The run ends with the first error of a controller.
    pub(crate) fn fail_controller(&mut self, entry: usize, message: String) {
        let (flow, now_ns) = (self.entries[entry].id().to_owned(), self.now);
        self.failure.get_or_insert_with(|| {
            let partial = Box::new(Output::empty());
            RunError::Controller { flow, now_ns, message, partial }
        });
    }
}
