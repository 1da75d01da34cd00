//! Packets between end points: through pipes, queues and transmitters.

use dumbbell_queue::{Enqueued, Packet as _};
use dumbbell_transport::{Kind, Packet};

use super::capture::host;
use super::{Direction, Engine, Hop, Line, PipeEnd, Route, direction};
use crate::link::{Discipline, Server, Start, drop_event};

impl Engine<'_> {
    #[inline]
    pub(super) fn on_hop(&mut self, id: u32) {
        let servers = self.links.len() as u32;
        if id < servers {
            self.hops.pop();
            self.on_server(id as usize);
            return;
        }
        let Line { pipe, end, .. } = &mut self.lines[(id - servers) as usize];
        let end = *end;
        // A pipe in which packets overtake can have outdated entries in the heap.
        if pipe.head() != Some(self.now) {
            self.hops.pop();
            return;
        }
        let Some(packet) = pipe.pop() else { return };
        match pipe.head() {
            Some(next) => self.hops.replace_top(next, id),
            None => self.hops.pop(),
        }
        match end {
            PipeEnd::EndPoint => self.deliver(packet),
            PipeEnd::Link => self.forward(packet),
        }
    }

    /// A packet enters a line at `time`.
    #[inline]
    pub(super) fn push_line(&mut self, index: u32, time: u64, packet: Packet) {
        let line = &mut self.lines[index as usize];
        if let Some(head) = line.pipe.push(time + line.delay, packet) {
            self.hops.push(head, self.links.len() as u32 + index);
        }
    }

    /// Where the hops of a packet's route begin.
    #[inline]
    pub(super) fn route(&self, packet: &Packet) -> Route {
        let (forward, reverse) = match packet.kind {
            Kind::Ping | Kind::Pong => {
                let probe = &self.probes[packet.flow as usize];
                (probe.forward, probe.reverse)
            }
            Kind::Datagram => {
                let way = &self.ways[self.way_of(packet)];
                (way.forward, way.reverse)
            }
            kind if kind.is_other() => {
                let place = &self.sessions[packet.flow as usize].place;
                (place.forward, place.reverse)
            }
            _ => {
                let place = &self.places[packet.flow as usize];
                (place.forward, place.reverse)
            }
        };
        match direction(packet.kind) {
            Direction::Forward => forward,
            Direction::Reverse => reverse,
        }
    }

    /// The way of a packet (not a probe's).
    #[inline]
    fn way_of(&self, packet: &Packet) -> usize {
        let way = match packet.kind {
            Kind::Datagram => self.entries[packet.flow as usize].way,
            kind if kind.is_other() => self.sessions[packet.flow as usize].place.way,
            _ => self.places[packet.flow as usize].way,
        };
        way as usize
    }

    /// The flow that a packet (not a probe's) belongs to: datagrams name it, others their slot.
    #[inline]
    pub(crate) fn entry_of(&self, packet: &Packet) -> usize {
        match packet.kind {
            Kind::Datagram => packet.flow as usize,
            kind if kind.is_other() => self.sessions[packet.flow as usize].place.entry as usize,
            _ => self.places[packet.flow as usize].entry as usize,
        }
    }

    /// A packet enters the network at its end point.
    #[inline]
    pub(crate) fn send(&mut self, packet: Packet) {
        if self.capturing {
            self.capture(host(direction(packet.kind)), "send", &packet);
        }
        self.forward(packet);
    }

    /// A packet stands before its next link, or before its last leg.
    #[inline]
    pub(super) fn forward(&mut self, mut packet: Packet) {
        let next = self.routes[self.route(&packet) as usize + usize::from(packet.hop)];
        if next.is_leg() {
            return self.last_leg(next.line, packet);
        }
        packet.hop += 1;
        self.offer(next, packet);
    }

    /// A packet has passed all its links.
    pub(super) fn last_leg(&mut self, leg: u32, packet: Packet) {
        if !matches!(packet.kind, Kind::Ping | Kind::Pong)
            && direction(packet.kind) == Direction::Forward
        {
            let way = self.way_of(&packet);
            if self.ways[way].loss.as_mut().is_some_and(|loss| loss.loses()) {
                self.count_drop(&packet);
                self.capture("path", "drop", &packet);
                return;
            }
        }
        self.push_line(leg, self.now, packet);
    }

    /// Offer a packet to its next link.
    #[inline]
    pub(super) fn offer(&mut self, hop: Hop, mut packet: Packet) {
        let now = self.now;
        let index = hop.link as usize;
        let link = &mut self.links[index];
        packet.overhead = link.overhead_for(packet.ip_bytes);
        link.counters.offered += 1;
        match &mut link.discipline {
            Discipline::Unlimited => {
                link.counters.packets_out += 1;
                link.counters.bytes_out += u64::from(packet.bytes());
                self.leave(hop, now, packet);
            }
            Discipline::Computed(fifo) => {
                let bytes = packet.bytes();
                match fifo.offer(now, bytes, &mut link.sojourn) {
                    Some(left) => {
                        link.counters.bytes_accepted += u64::from(bytes);
                        self.leave(hop, left, packet);
                    }
                    None => {
                        link.counters.drops += 1;
                        self.count_drop(&packet);
                    }
                }
            }
            Discipline::Stored(_) => self.offer_stored(index, packet),
        }
    }

    pub(super) fn offer_stored(&mut self, index: usize, mut packet: Packet) {
        let now = self.now;
        self.capture_link(index, "enqueue", &packet);
        let link = &mut self.links[index];
        let Discipline::Stored(stored) = &mut link.discipline else {
            return;
        };
        if let Server::Trace { trace, partial, .. } = &mut stored.server
            && partial.is_none()
            && stored.queue.backlog_packets() == 0
        {
            trace.skip_to(now);
        }
        packet.set_enqueued_at(now);
        let outcome = stored.queue.enqueue(now, packet, &mut link.dropped);
        if outcome == Enqueued::Marked {
            self.capture_link(index, "mark", &packet);
        }
        self.take_drops(index);
        self.start_server(index);
    }

    /// If the server is free, begin the next transmission.
    pub(super) fn start_server(&mut self, index: usize) {
        let link = &mut self.links[index];
        let Discipline::Stored(stored) = &mut link.discipline else {
            return;
        };
        if matches!(stored.server, Server::Constant { .. }) {
            self.start_constant(index);
            return;
        }
        let backlog = stored.queue.backlog_packets();
        if let Server::Trace { trace, partial, scheduled, .. } = &mut stored.server
            && !*scheduled
            && (backlog > 0 || partial.is_some())
        {
            *scheduled = true;
            let at = trace.peek();
            self.hops.push(at, index as u32);
        }
    }

    /// Transmissions of a constant-rate server. A serial line holds the packet until it has left; a
    /// shaper lets packets go until its tokens are used up.
    pub(super) fn start_constant(&mut self, index: usize) {
        let now = self.now;
        loop {
            let link = &mut self.links[index];
            let Discipline::Stored(stored) = &mut link.discipline else { return };
            match stored.start(now, &mut link.dropped) {
                Start::Packet(packet, left) => {
                    link.sojourn.add(now, now - packet.enqueued);
                    if left > now {
                        self.hops.push(left, index as u32);
                        break;
                    }
                    self.leave_stored(index, packet);
                }
                Start::Wait(until) | Start::Retry(until) => {
                    self.hops.push(until, index as u32);
                    break;
                }
                Start::Nothing => break,
            }
        }
        if !self.links[index].dropped.is_empty() {
            self.take_drops(index);
        }
    }

    /// A transmission ends, or a delivery opportunity comes.
    pub(super) fn on_server(&mut self, index: usize) {
        let now = self.now;
        let link = &mut self.links[index];
        let Discipline::Stored(stored) = &mut link.discipline else {
            return;
        };
        match &mut stored.server {
            Server::Constant { transmitter, sending, busy, retry_at } => {
                // A rate change moves the end; the old event is then void.
                let ends = *busy && transmitter.free_at() == now;
                if !ends && (*busy || *retry_at != now) {
                    return;
                }
                *busy = false;
                if let Some(packet) = sending.take() {
                    self.leave_stored(index, packet);
                }
            }
            Server::Trace { scheduled, trace, .. } => {
                *scheduled = false;
                // All opportunities of this millisecond, one after the other.
                if trace.peek() != now {
                    self.start_server(index);
                    return;
                }
                trace.advance();
                let mut out = std::mem::take(&mut self.released);
                stored.use_opportunity(now, &mut link.dropped, &mut out);
                for packet in out.drain(..) {
                    self.links[index].sojourn.add(now, now - packet.enqueued);
                    self.leave_stored(index, packet);
                }
                self.released = out;
                self.take_drops(index);
            }
        }
        self.start_server(index);
    }

    /// A stored packet has left its transmitter now.
    pub(super) fn leave_stored(&mut self, index: usize, packet: Packet) {
        let link = &mut self.links[index];
        link.counters.packets_out += 1;
        link.counters.bytes_out += u64::from(packet.bytes());
        let hop = self.routes[self.route(&packet) as usize + usize::from(packet.hop) - 1];
        self.leave(hop, self.now, packet);
    }

    /// A packet has left the transmitter of a link at `time`: impairments, then propagation.
    #[inline]
    pub(super) fn leave(&mut self, hop: Hop, time: u64, packet: Packet) {
        let link = &self.links[hop.link as usize];
        if link.impairment.is_some() || self.capturing {
            return self.leave_impaired(hop, time, packet);
        }
        self.push_line(hop.line, time + link.delay, packet);
    }

    #[inline(never)]
    pub(super) fn leave_impaired(&mut self, hop: Hop, mut time: u64, mut packet: Packet) {
        let index = hop.link as usize;
        self.capture_link(index, "depart", &packet);
        if time > self.end {
            // A computed departure that the run does not reach: its fate is not drawn.
            self.push_line(hop.line, time, packet);
            return;
        }
        let link = &mut self.links[index];
        let delay = link.delay;
        let mut arrival = time + delay;
        if let Some(impairment) = &mut link.impairment {
            if impairment.loss.loses() {
                link.counters.random_losses += 1;
                self.count_drop(&packet);
                self.capture_link(index, "lost", &packet);
                return;
            }
            impairment.mangle(&mut packet);
            if !impairment.only_loses() {
                let replaces;
                (time, replaces) = impairment.release(&packet, time);
                if replaces {
                    if let Some(old) = self.lines[hop.line as usize].pipe.supersede(packet) {
                        link.counters.acks_thinned += 1;
                        self.count_drop(&old);
                        self.capture_link(index, "drop-thinned", &old);
                        return;
                    }
                    impairment.keep_both(&packet);
                }
                let copy = impairment.duplicates().then(|| impairment.arrival(time, delay));
                arrival = impairment.arrival(time, delay);
                if let Some(copy) = copy {
                    self.push_line(hop.line, copy, packet);
                    self.count_duplicate(&packet);
                }
            }
        }
        self.push_line(hop.line, arrival, packet);
    }

    /// Account for what a queue has dropped.
    pub(super) fn take_drops(&mut self, index: usize) {
        let mut dropped = std::mem::take(&mut self.links[index].dropped);
        for (packet, reason) in dropped.drain(..) {
            self.links[index].counters.drops += 1;
            self.count_drop(&packet);
            self.capture_link(index, drop_event(reason), &packet);
        }
        self.links[index].dropped = dropped;
    }

    #[inline(never)]
    pub(super) fn count_drop(&mut self, packet: &Packet) {
        if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            self.probes[packet.flow as usize].dropped += 1;
        } else {
            let entry = self.entry_of(packet);
            self.entries[entry].count_drop(direction(packet.kind));
        }
    }

    pub(super) fn count_duplicate(&mut self, packet: &Packet) {
        if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            self.probes[packet.flow as usize].duplicated += 1;
        } else {
            let entry = self.entry_of(packet);
            self.entries[entry].count_sent(direction(packet.kind));
        }
    }
}
