//! Drivers for controllers: a script of rounds, and a one-link pipe.
#![allow(dead_code, unreachable_pub)]

pub mod events;
pub mod pipe;

use dumbbell_cc::{Ack, CaState, Congestion, CongestionKind, Controller, Nanos, Start, build};
use serde_json::Value;

pub const MS: Nanos = 1_000_000;
pub const S: Nanos = 1_000_000_000;
pub const MSS: u32 = 1448;

pub fn controller(kind: &str, params: &Value) -> Box<dyn Controller> {
    build(kind, params.as_object().expect("parameters are an object"), 1).expect("valid")
}

/// A controller fed with whole round trips, its window always used up.
pub struct Script {
    pub cc: Box<dyn Controller>,
    pub now: Nanos,
    pub rtt: Nanos,
    pub una: u64,
    pub round: u64,
}

impl Script {
    pub fn new(kind: &str, params: &Value, rtt: Nanos, initial: u64) -> Self {
        let mut cc = controller(kind, params);
        cc.on_start(&Start {
            now: 0,
            mss: MSS,
            initial_window: initial * u64::from(MSS),
            rtt: Some(rtt),
            ecn: dumbbell_cc::EcnMode::Off,
        });
        Self { cc, now: 0, rtt, una: 0, round: 0 }
    }

    pub fn segments(&self) -> u64 {
        self.cc.cwnd() / u64::from(MSS)
    }

    pub fn event(&self, acked: u64) -> Ack {
        Ack {
            now: self.now,
            mss: MSS,
            acked,
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            delivered: self.una,
            inflight_before: self.cc.cwnd(),
            inflight: self.cc.cwnd() - acked.min(self.cc.cwnd()),
            snd_una: self.una,
            snd_nxt: self.una + self.cc.cwnd(),
            round: self.round,
            cwnd_limited: true,
            advances: true,
            state: CaState::Open,
            ..Ack::default()
        }
    }

    /// Deliver one window in `acks` ACKs that arrive over one round trip.
    pub fn round(&mut self, acks: u64) {
        let window = self.cc.cwnd();
        self.round += 1;
        for i in 1..=acks {
            let acked = window * i / acks - window * (i - 1) / acks;
            self.now += self.rtt / acks;
            self.una += acked;
            let ack = self.event(acked);
            self.cc.on_ack(&ack);
        }
    }

    /// A loss, repaired at once.
    pub fn lose(&mut self) {
        self.cc.on_congestion(&Congestion {
            now: self.now,
            kind: CongestionKind::Loss,
            mss: MSS,
            inflight: self.cc.cwnd(),
            lost: u64::from(MSS),
            srtt: self.rtt,
            delivered: self.una,
            acked: u64::from(MSS),
        });
        self.cc.on_recovery_exit(self.now);
    }

    /// Put the flow into congestion avoidance at about `segments`.
    pub fn settle(kind: &str, params: &Value, rtt: Nanos, cut_from: u64) -> Self {
        let mut script = Self::new(kind, params, rtt, cut_from);
        script.lose();
        script
    }
}

/// Average window, in segments, with one loss every `1/p` segments.
pub fn average_window(kind: &str, params: &Value, rtt: u64, p: f64, start: u64) -> f64 {
    let mut script = Script::settle(kind, params, rtt, start);
    let per_loss = (1.0 / p) as u64;
    let (mut since, mut losses) = (0, 0);
    let (mut sum, mut rounds) = (0.0, 0.0);
    while losses < 60 {
        let window = script.segments();
        script.round(8.min(window));
        since += window;
        if losses >= 30 {
            sum += window as f64;
            rounds += 1.0;
        }
        if since >= per_loss {
            since -= per_loss;
            losses += 1;
            script.lose();
        }
    }
    sum / rounds
}

/// A variable that the controller records; NaN if it has none of that name.
pub fn recorded(cc: &dyn Controller, wanted: &str) -> f64 {
    let mut found = f64::NAN;
    cc.record(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}
