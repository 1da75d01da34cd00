//! Probes: small packets at regular times that measure delay without reacting to it.

use dumbbell_transport::{Kind, Packet};

use crate::config::ProbeKind;
use crate::engine::{Engine, Route, TimerKind, timer_id};
use crate::histogram::Histogram;

pub(crate) struct ProbeState {
    pub(crate) forward: Route,
    pub(crate) reverse: Route,
    pub(crate) sent: u64,
    /// Packets that reached an end point, echoes included.
    pub(crate) arrived: u64,
    pub(crate) echoed: u64,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    pub(crate) delay: Histogram,
    /// Send time and delay of each answer.
    pub(crate) samples: Vec<(u64, u64)>,
}

impl ProbeState {
    pub(crate) fn new(forward: Route, reverse: Route) -> Self {
        Self {
            forward,
            reverse,
            sent: 0,
            arrived: 0,
            echoed: 0,
            dropped: 0,
            duplicated: 0,
            delay: Histogram::default(),
            samples: Vec::new(),
        }
    }
}

impl Engine<'_> {
    pub(crate) fn on_probe_timer(&mut self, index: u32) {
        let config = &self.config.probes[index as usize];
        if self.now >= config.stop_ns {
            return;
        }
        let state = &mut self.probes[index as usize];
        let packet = Packet {
            flow: index,
            generation: u16::MAX,
            kind: Kind::Ping,
            ip_bytes: config.size_bytes as u16,
            dscp: config.dscp,
            seq: state.sent,
            timestamp: self.now,
            ..Packet::default()
        };
        state.sent += 1;
        let next = config.start_ns + state.sent * config.interval_ns;
        self.send(packet);
        self.timers.push(next, timer_id(TimerKind::Probe, index));
    }

    pub(crate) fn on_probe(&mut self, packet: &Packet) {
        let config = &self.config.probes[packet.flow as usize];
        let state = &mut self.probes[packet.flow as usize];
        state.arrived += 1;
        if packet.kind == Kind::Ping && config.kind == ProbeKind::Ping {
            state.echoed += 1;
            let echo = Packet { kind: Kind::Pong, hop: 0, ..*packet };
            self.send(echo);
            return;
        }
        let delay = self.now - packet.timestamp;
        if packet.timestamp >= self.config.warmup_ns {
            state.delay.add(delay);
        }
        state.samples.push((packet.timestamp, delay));
    }
}
