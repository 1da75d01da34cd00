//! Recording of every packet, for pcapng.

use dumbbell_transport::{Kind, Packet};

use super::{Direction, Engine};

/// The host that sends in this direction, as a place of the capture.
pub(super) fn host(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "sender",
        Direction::Reverse => "receiver",
    }
}

impl Engine<'_> {
    pub(super) fn capture_link(&mut self, index: usize, event: &'static str, packet: &Packet) {
        if self.capturing {
            let name = self.config.links[index].id.clone();
            self.capture(&name, event, packet);
        }
    }

    pub(super) fn capture(&mut self, place: &str, event: &'static str, packet: &Packet) {
        if !self.capturing {
            return;
        }
        let (flow, seq, ack) = if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            (self.config.probes[packet.flow as usize].id.as_str(), packet.seq, 0)
        } else if packet.kind == Kind::Datagram {
            (self.entries[packet.flow as usize].id(), packet.seq, 0)
        } else if packet.kind.is_other() {
            (self.entries[self.entry_of(packet)].id(), packet.seq, 0)
        } else {
            let connection = &self.connections[packet.flow as usize];
            let id = self.entries[connection.entry as usize].id();
            match packet.kind {
                Kind::Ack => (id, 0, connection.sender.byte_offset(packet.seq)),
                Kind::Data => (id, packet.aux[0], 0),
                _ => (id, packet.seq, 0),
            }
        };
        let flow = flow.to_owned();
        self.recorder.capture(self.now, place, &flow, event, packet, seq, ack);
    }
}
