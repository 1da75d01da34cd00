//! Traffic sources: when connections open and close and what the application writes.

use dumbbell_cc::Controller;
use dumbbell_transport::{Kind, Packet};

use crate::config::{Tcp, Traffic, Transport};
use crate::connection::{Connection, NO_USER, Phase};
use crate::engine::{Engine, Place, TimerKind, timer_id};
use crate::entry::{Completion, Entry};
use crate::run::RunError;

/// IP and UDP headers.
const DATAGRAM_HEADER_BYTES: u32 = 28;
/// What a source with a rate writes at a time, to a transport other than TCP.
const OTHER_CHUNK_BYTES: u64 = 1000;
/// A request without an answer is repeated after this time.
const REQUEST_TIMEOUT: u64 = 1_000_000_000;
/// A slot rests so long before a connection with another way may have it: packets of the last one may
/// still be in the network (TIME-WAIT).
const REST: u64 = 4_000_000_000;
const SECOND: f64 = 1e9;

pub(crate) fn to_ns(seconds: f64) -> u64 {
    (seconds * SECOND).max(0.0) as u64
}

impl Engine<'_> {
    fn schedule_source(&mut self, entry: u32, at: u64) {
        self.timers.push(at, timer_id(TimerKind::Source, entry));
    }

    pub(crate) fn on_source_timer(&mut self, index: u32) {
        let now = self.now;
        let entry = &mut self.entries[index as usize];
        if entry.source.stopped {
            return;
        }
        if let Transport::Udp { payload_bytes } = entry.config.transport {
            self.send_datagram(index, payload_bytes);
            return;
        }
        let config = entry.config;
        match &config.traffic {
            Traffic::Users(_) => self.start_users(index),
            Traffic::Bulk => {
                entry.source.pending = u64::MAX;
                self.open(index, 0);
            }
            Traffic::Size { bytes } => self.open(index, *bytes),
            Traffic::Media(_) => self.open(index, 0),
            Traffic::Poisson { rate_hz, size } => {
                if entry.source.count > 0 {
                    let bytes = (entry.source.stream.draw(size) as u64).max(1);
                    self.open(index, bytes);
                }
                let source = &mut self.entries[index as usize].source;
                source.count += 1;
                let gap = to_ns(source.stream.exponential(1.0 / rate_hz));
                self.schedule_source(index, now.saturating_add(gap));
            }
            Traffic::ConstantRate { bps, chunk_bytes } => {
                if entry.slot.is_none() {
                    self.open(index, 0);
                }
                self.write(index, u64::from(*chunk_bytes));
                let source = &mut self.entries[index as usize].source;
                source.count += 1;
                let at = u128::from(source.count) * u128::from(*chunk_bytes) * 8_000_000_000
                    / u128::from(*bps);
                self.schedule_source(index, config.start_ns + at as u64);
            }
            Traffic::OnOff { on, off, bps } => {
                if entry.slot.is_none() {
                    self.open(index, 0);
                }
                let tcp = self.entries[index as usize].tcp();
                let chunk = tcp.map_or(OTHER_CHUNK_BYTES, |tcp| u64::from(tcp.mss));
                let source = &mut self.entries[index as usize].source;
                if now >= source.phase_end {
                    source.on = !source.on;
                    let law = if source.on { on } else { off };
                    source.phase_end = now + to_ns(source.stream.draw(law)).max(1);
                    source.next_write = if source.on { now } else { u64::MAX };
                    if !source.on && *bps == 0 {
                        self.stop_writing(index);
                    }
                }
                let source = &mut self.entries[index as usize].source;
                if now >= source.next_write {
                    // Without a rate everything is written at once.
                    let gap = (chunk * 8_000_000_000).checked_div(*bps);
                    source.next_write = gap.map_or(u64::MAX, |gap| now + gap);
                    self.write(index, if gap.is_some() { chunk } else { u64::MAX });
                }
                let source = &self.entries[index as usize].source;
                self.schedule_source(index, source.phase_end.min(source.next_write));
            }
            Traffic::RequestResponse { request, .. } => {
                if entry.slot.is_none() {
                    self.open(index, 0);
                    return;
                }
                let source = &mut entry.source;
                let unanswered = source.ask_at == u64::MAX && source.served < source.request;
                if now >= source.ask_at {
                    source.ask_at = u64::MAX;
                    source.request += 1;
                    source.request_started = now;
                } else if !unanswered || now < source.request_sent + REQUEST_TIMEOUT {
                    return;
                }
                source.request_sent = now;
                let bytes = source.stream.draw(request).clamp(1.0, 1448.0) as u16;
                let number = source.request;
                let Some(slot) = entry.slot else { return };
                let packet = Packet {
                    flow: slot,
                    generation: self.connections[slot as usize].generation,
                    kind: Kind::Request,
                    ip_bytes: dumbbell_transport::tcp::HEADER_BYTES + bytes,
                    payload: bytes,
                    seq: number,
                    timestamp: now,
                    ..Packet::default()
                };
                self.entries[index as usize].acks_sent += 1;
                self.send(packet);
                self.schedule_source(index, now + REQUEST_TIMEOUT);
            }
        }
    }

    /// The request reached the server: answer it, once.
    pub(crate) fn on_request(&mut self, slot: u32) {
        let entry = &mut self.entries[self.connections[slot as usize].entry as usize];
        if entry.source.served >= entry.source.request {
            return;
        }
        entry.source.served = entry.source.request;
        let Traffic::RequestResponse { response, .. } = &entry.config.traffic else {
            return;
        };
        let bytes = (entry.source.stream.draw(response) as u64).max(1);
        entry.source.response = bytes;
        let connection = &mut self.connections[slot as usize];
        connection.size += bytes;
        connection.sender.write(bytes);
        self.transmit(slot);
    }

    /// Called when a connection opens: a request-response client starts.
    pub(crate) fn on_established(&mut self, slot: u32) {
        let index = self.connections[slot as usize].entry;
        let entry = &mut self.entries[index as usize];
        if matches!(entry.config.traffic, Traffic::RequestResponse { .. }) {
            entry.source.ask_at = self.now;
            self.schedule_source(index, self.now);
        }
    }

    /// All bytes of a transfer arrived in order.
    pub(crate) fn on_transfer_complete(&mut self, slot: u32) {
        let now = self.now;
        let connection = &mut self.connections[slot as usize];
        let index = connection.entry;
        let entry = &mut self.entries[index as usize];
        if let Traffic::RequestResponse { think, .. } = &entry.config.traffic {
            let start = entry.source.request_started;
            let bytes = entry.source.response;
            entry.completions.push(Completion { start, bytes, duration: now - start });
            let think = to_ns(entry.source.stream.draw(think));
            entry.source.ask_at = now.saturating_add(think);
            self.schedule_source(index, now.saturating_add(think));
            return;
        }
        connection.completed = true;
        if connection.user != NO_USER {
            return;
        }
        entry.completions.push(Completion {
            start: connection.started,
            bytes: connection.size,
            duration: now - connection.started,
        });
    }

    /// After an ACK: a finished transfer frees its slot once everything is acknowledged.
    #[inline]
    pub(crate) fn on_progress(&mut self, slot: u32) {
        let connection = &self.connections[slot as usize];
        if connection.completed && connection.sender.is_idle() {
            if connection.user != NO_USER {
                self.on_user_done(slot);
            }
            self.close(slot);
        }
    }

    fn write(&mut self, index: u32, bytes: u64) {
        let entry = &mut self.entries[index as usize];
        let Some(slot) = entry.slot else { return };
        if entry.transport.is_some() {
            return self.write_to_session(slot, bytes);
        }
        let connection = &mut self.connections[slot as usize];
        if connection.phase == Phase::Established {
            connection.sender.write(bytes);
            self.transmit(slot);
        } else {
            entry.source.pending = entry.source.pending.saturating_add(bytes);
        }
    }

    fn stop_writing(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.source.pending = 0;
        let Some(slot) = entry.slot else { return };
        if entry.transport.is_some() {
            self.sessions[slot as usize].sender.truncate();
        } else {
            self.connections[slot as usize].sender.truncate();
        }
    }

    /// The flow's stop: nothing more is sent, as if the application had closed the socket.
    pub(crate) fn stop_entry(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.source.stopped = true;
        let close = if entry.transport.is_some() { Self::close_session } else { Self::close };
        for slot in entry.open.clone() {
            close(self, slot);
        }
    }

    /// Open a connection of `size` bytes on the flow's own way; 0 for one that the source writes to.
    fn open(&mut self, index: u32, size: u64) {
        if self.entries[index as usize].transport.is_some() {
            return self.open_session(index, size);
        }
        let way = self.entries[index as usize].way;
        let slot = self.entries[index as usize].free.pop_back().map(|(_, slot)| slot);
        self.open_in(slot, self.place(index, way), size, NO_USER);
    }

    /// Open a connection for a user.
    pub(crate) fn open_for(&mut self, user: u32, place: Place, size: u64) {
        let free = &mut self.entries[place.entry as usize].free;
        let rested = free.front().is_some_and(|&(since, _)| since + REST <= self.now);
        let slot = if rested { free.pop_front().map(|(_, slot)| slot) } else { None };
        self.open_in(slot, place, size, user);
    }

    fn open_in(&mut self, slot: Option<u32>, place: Place, size: u64, user: u32) {
        let now = self.now;
        let index = place.entry;
        let entry = &self.entries[index as usize];
        let Some(tcp) = entry.tcp() else { return };
        let number = entry.connections;
        let cc = match self.build_controller(entry, tcp, number) {
            Ok(cc) => cc,
            Err(error) => {
                self.failure.get_or_insert(error);
                return;
            }
        };
        let slot = slot.unwrap_or(self.connections.len() as u32);
        let generation = self
            .connections
            .get(slot as usize)
            .map_or(0, |connection| connection.generation.wrapping_add(1));
        let handshake = tcp.handshake;
        let mut connection =
            Connection::new(tcp, entry.ecn, cc, slot, generation, index, entry.config.dscp);
        connection.started = now;
        connection.size = size;
        connection.user = user;
        connection.open_index = entry.open.len() as u32;
        if (slot as usize) < self.connections.len() {
            self.connections[slot as usize] = connection;
            self.places[slot as usize] = place;
        } else {
            self.connections.push(connection);
            self.places.push(place);
        }
        if user != NO_USER {
            self.on_user_opened(user, slot);
        }
        let entry = &mut self.entries[index as usize];
        entry.connections += 1;
        entry.slot = Some(slot);
        entry.open.push(slot);
        if handshake {
            self.send_syn(slot);
        } else {
            self.establish(slot, None);
        }
    }

    /// The controller of an entry's `number`-th connection.
    fn build_controller(
        &self,
        entry: &Entry,
        tcp: &Tcp,
        number: u64,
    ) -> Result<Box<dyn Controller>, RunError> {
        let seed = entry.cc_seed.wrapping_add(number);
        if let Some(recipe) = &entry.recipe {
            return self.couple(entry, recipe.build(seed));
        }
        let custom = self.custom.build(&tcp.cc.kind, &tcp.cc.params, seed);
        let cc = custom
            .unwrap_or_else(|| Err(format!("unknown controller {:?}", tcp.cc.kind)))
            .map_err(|message| RunError::config(format!("flows.{}.cc", entry.id()), message))?;
        self.couple(entry, cc)
    }

    pub(crate) fn close(&mut self, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        connection.phase = Phase::Closed;
        connection.sender.controller_mut().on_close(self.now);
        let entry = &mut self.entries[connection.entry as usize];
        entry.ended.add(connection.sender.stats());
        entry.ended_increases += connection.increases;
        entry.free.push_back((self.now, slot));
        let at = connection.open_index;
        entry.open.swap_remove(at as usize);
        if let Some(&moved) = entry.open.get(at as usize) {
            self.connections[moved as usize].open_index = at;
        }
    }

    /// No SYN was answered.
    pub(crate) fn on_connection_refused(&mut self, slot: u32) {
        if self.connections[slot as usize].user != NO_USER {
            self.on_user_refused(slot);
        }
        self.close(slot);
    }

    // ---- datagrams -----------------------------------------------------------------------------

    fn send_datagram(&mut self, index: u32, payload: u32) {
        let entry = &mut self.entries[index as usize];
        let Traffic::ConstantRate { bps, .. } = entry.config.traffic else {
            return;
        };
        let mut packet = Packet {
            flow: index,
            generation: u16::MAX - 1,
            kind: Kind::Datagram,
            ip_bytes: (payload + DATAGRAM_HEADER_BYTES) as u16,
            payload: payload as u16,
            dscp: entry.config.dscp,
            seq: entry.source.count,
            timestamp: self.now,
            ..Packet::default()
        };
        packet.set_hosts(entry.config.source_host, entry.config.destination_host);
        entry.sent += 1;
        entry.source.count += 1;
        let at =
            u128::from(entry.source.count) * u128::from(payload) * 8_000_000_000 / u128::from(bps);
        let at = entry.config.start_ns + at as u64;
        self.send(packet);
        self.schedule_source(index, at);
    }

    pub(crate) fn on_datagram(&mut self, packet: &Packet) {
        let entry = &mut self.entries[packet.flow as usize];
        entry.arrived += 1;
        entry.marked_arrived += u64::from(packet.is_ce());
        entry.delivered_bytes += u64::from(packet.payload);
        self.observe(packet.flow as usize, packet);
    }
}
