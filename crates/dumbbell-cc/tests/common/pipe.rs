//! One flow, one FIFO link, per-packet ACKs, packet numbers as sequence (no retransmission ambiguity).

use std::collections::VecDeque;

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, Lost, Nanos, RateSample, Start,
};
use rand_core::{RngCore, SeedableRng};

use super::{MSS, S};

#[derive(Clone, Copy)]
struct Packet {
    sent: Nanos,
    delivered: u64,
    delivered_time: Nanos,
    first_sent: Nanos,
    inflight: u64,
    lost: u64,
    acked: bool,
    /// It repeats data from before the recovery point.
    repair: bool,
    ce: bool,
    sce: bool,
}

pub struct Pipe {
    pub cc: Box<dyn Controller>,
    pub now: Nanos,
    /// Bits per second of payload.
    pub rate: f64,
    pub rtt: Nanos,
    /// Packets that wait at most.
    pub limit: usize,
    /// Probability of losing a packet behind the link.
    pub loss: f64,
    /// Probabilities of a CE and of an SCE mark; exact feedback.
    pub ce: f64,
    pub sce: f64,
    /// Marks spread evenly instead: one CE in so many packets, 0 for none.
    pub ce_every: u64,
    pub marks: u64,
    pub delivered: u64,
    pub lost: u64,
    /// (time, cwnd in segments) at each congestion event, before the cut.
    pub cuts: Vec<(Nanos, u64)>,
    random: rand_pcg::Pcg32,
    packets: VecDeque<Packet>,
    first: u64,
    inflight: u64,
    next_send: Nanos,
    link_free: Nanos,
    /// (arrival of the ACK, packet number).
    acks: VecDeque<(Nanos, u64)>,
    delivered_time: Nanos,
    first_sent: Nanos,
    srtt: Nanos,
    min_rtt: Nanos,
    round_end: u64,
    round: u64,
    limited_until: u64,
    recover: Option<u64>,
    /// A reduction for a mark lasts until this packet is acked.
    reduced: Option<u64>,
    /// Lost data from before the recovery point: not sent again yet, and not acked yet.
    to_repair: u64,
    unrepaired: u64,
}

const BYTES: u64 = MSS as u64;

impl Pipe {
    pub fn new(mut cc: Box<dyn Controller>, rate: f64, rtt: Nanos, limit: usize) -> Self {
        cc.on_start(&Start {
            now: 0,
            mss: MSS,
            initial_window: 10 * BYTES,
            rtt: Some(rtt),
            ecn: cc.ecn_mode(),
        });
        Self {
            cc,
            now: 0,
            rate,
            rtt,
            limit,
            loss: 0.0,
            ce: 0.0,
            sce: 0.0,
            ce_every: 0,
            marks: 0,
            delivered: 0,
            lost: 0,
            cuts: Vec::new(),
            random: rand_pcg::Pcg32::seed_from_u64(7),
            packets: VecDeque::new(),
            first: 0,
            inflight: 0,
            next_send: 0,
            link_free: 0,
            acks: VecDeque::new(),
            delivered_time: 0,
            first_sent: 0,
            srtt: rtt,
            min_rtt: rtt,
            round_end: 0,
            round: 0,
            limited_until: 0,
            recover: None,
            reduced: None,
            to_repair: 0,
            unrepaired: 0,
        }
    }

    /// Start of the random losses.
    pub fn seed(&mut self, seed: u64) {
        self.random = rand_pcg::Pcg32::seed_from_u64(seed);
    }

    fn transmission(&self) -> Nanos {
        (BYTES as f64 * 8e9 / self.rate) as Nanos
    }

    pub fn queue(&self) -> usize {
        (self.link_free.saturating_sub(self.now) / self.transmission()) as usize
    }

    fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    fn chance(&mut self, p: f64) -> bool {
        f64::from(self.random.next_u32()) < p * 4_294_967_296.0
    }

    fn send(&mut self) {
        if self.inflight == 0 {
            self.first_sent = self.now;
            self.delivered_time = self.now;
        }
        self.inflight += BYTES;
        let number = self.next_number();
        self.packets.push_back(Packet {
            sent: self.now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            inflight: self.inflight,
            lost: self.lost,
            acked: false,
            repair: self.to_repair > 0,
            ce: false,
            sce: false,
        });
        self.to_repair = self.to_repair.saturating_sub(1);
        if self.cc.wants_sent() {
            self.cc.on_sent(self.now, MSS, self.inflight);
        }
        if self.ce > 0.0 || self.sce > 0.0 || self.ce_every > 0 {
            let even = self.ce_every > 0 && number.is_multiple_of(self.ce_every);
            let (ce, sce) = (even || self.chance(self.ce), self.chance(self.sce));
            if let Some(packet) = self.packets.back_mut() {
                (packet.ce, packet.sce) = (ce, sce && !ce);
            }
        }
        if let Some(rate) = self.cc.pacing_rate() {
            self.next_send = self.next_send.max(self.now) + (BYTES as f64 * 1e9 / rate) as Nanos;
        }
        let overflow = self.queue() >= self.limit;
        let dropped = self.chance(self.loss);
        if overflow {
            return;
        }
        self.link_free = self.link_free.max(self.now) + self.transmission();
        if !dropped {
            self.acks.push_back((self.link_free + self.rtt, number));
        }
    }

    /// Run until `end`; `each` sees the pipe after every ACK.
    pub fn run(&mut self, end: Nanos, mut each: impl FnMut(&Self)) {
        while self.now < end {
            let can_send = self.inflight + BYTES <= self.cc.cwnd();
            let send_at = can_send.then_some(self.next_send.max(self.now));
            let ack_at = self.acks.front().map(|(at, _)| *at);
            match (send_at, ack_at) {
                (Some(send), ack) if ack.is_none_or(|ack| send <= ack) => {
                    self.now = send;
                    self.send();
                }
                (_, Some(ack)) => {
                    self.now = ack;
                    self.receive();
                    each(self);
                }
                // Everything in flight is lost: the tail is declared so after a second.
                (_, None) => {
                    self.now += S;
                    let lost = self.packets.iter().filter(|p| !p.acked).count() as u64;
                    self.lost += lost * BYTES;
                    self.first = self.next_number();
                    self.packets.clear();
                    self.inflight = 0;
                    (self.recover, self.to_repair, self.unrepaired) = (None, 0, 0);
                }
            }
        }
    }

    fn receive(&mut self) {
        let Some((_, number)) = self.acks.pop_front() else {
            return;
        };
        if number < self.first {
            return;
        }
        let index = (number - self.first) as usize;
        let before = self.inflight;
        let packet = self.packets[index];
        self.packets[index].acked = true;
        self.unrepaired -= u64::from(packet.repair);
        self.inflight -= BYTES;
        self.delivered += BYTES;
        self.delivered_time = self.now;
        self.first_sent = packet.sent;
        let rtt = self.now - packet.sent;
        self.srtt = (7 * self.srtt + rtt) / 8;
        self.min_rtt = self.min_rtt.min(rtt);

        // In order, so what is three behind is lost.
        let (mut newly_lost, mut new_event) = (0, false);
        while let Some(front) = self.packets.front() {
            if !front.acked {
                if self.first + 3 > number {
                    break;
                }
                newly_lost += BYTES;
                self.inflight -= BYTES;
                self.cc.on_lost(&Lost {
                    now: self.now,
                    number: self.first,
                    bytes: MSS,
                    tx_in_flight: front.inflight,
                    lost: self.lost + newly_lost - front.lost,
                    delivered: self.delivered,
                    app_limited: false,
                });
                // What was sent before the cut is part of the same event.
                if front.repair {
                    self.to_repair += 1;
                } else if self.recover.is_some_and(|recover| self.first < recover) {
                    self.to_repair += 1;
                    self.unrepaired += 1;
                } else if self.recover.is_none() {
                    new_event = true;
                    self.to_repair += 1;
                    self.unrepaired += 1;
                    self.recover = Some(self.next_number());
                }
            }
            self.packets.pop_front();
            self.first += 1;
        }
        self.lost += newly_lost;
        // Recovery ends when all data outstanding at its start has arrived, repairs included.
        if self.unrepaired == 0 && self.recover.is_some_and(|recover| self.first >= recover) {
            self.recover = None;
            self.cc.on_recovery_exit(self.now);
        }
        if new_event {
            self.cuts.push((self.now, self.cc.cwnd() / BYTES));
            self.cc.on_congestion(&Congestion {
                now: self.now,
                kind: CongestionKind::Loss,
                mss: MSS,
                inflight: before,
                lost: newly_lost,
                srtt: self.srtt,
                delivered: self.delivered,
                acked: BYTES,
            });
        }
        self.marks += u64::from(packet.ce || packet.sce);
        if self.reduced.is_some_and(|end| self.first > end) {
            self.reduced = None;
            self.cc.on_recovery_exit(self.now);
        }
        if packet.ce
            && !self.cc.responds_to_marks()
            && self.reduced.is_none()
            && self.recover.is_none()
        {
            self.reduced = Some(self.next_number());
            self.cuts.push((self.now, self.cc.cwnd() / BYTES));
            self.cc.on_congestion(&Congestion {
                now: self.now,
                kind: CongestionKind::Ecn,
                mss: MSS,
                inflight: before,
                lost: 0,
                srtt: self.srtt,
                delivered: self.delivered,
                acked: BYTES,
            });
        }
        let round_start = packet.delivered >= self.round_end;
        if round_start {
            self.round_end = self.delivered;
            self.round += 1;
        }
        let interval = (packet.sent - packet.first_sent).max(self.now - packet.delivered_time);
        let ack = Ack {
            now: self.now,
            mss: MSS,
            acked: BYTES,
            lost: newly_lost,
            ce: if packet.ce { BYTES } else { 0 },
            ce_packets: u64::from(packet.ce),
            sce: if packet.sce { BYTES } else { 0 },
            ece: packet.ce,
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            rate: RateSample {
                delivered: self.delivered - packet.delivered,
                interval: if interval < self.min_rtt { 0 } else { interval },
                prior_delivered: packet.delivered,
                has_data: true,
                app_limited: false,
                tx_in_flight: packet.inflight,
                lost: self.lost - packet.lost,
            },
            delivered: self.delivered,
            lost_total: self.lost,
            inflight_before: before,
            inflight: self.inflight,
            snd_una: self.first * BYTES,
            snd_nxt: self.next_number() * BYTES,
            round: self.round,
            round_start,
            cwnd_limited: true,
            advances: true,
            state: match (self.recover, self.reduced) {
                (Some(_), _) => CaState::Recovery,
                (None, Some(_)) => CaState::Cwr,
                (None, None) => CaState::Open,
            },
            ..Ack::default()
        };
        self.cc.on_ack(&ack);
    }
}
