//! What happens behind a transmitter: loss, jitter, reordering, duplication, faults of the ECN field,
//! and ACKs that wait for each other.

use dumbbell_queue::{Ecn, Packet as _};
use dumbbell_transport::{Kind, Packet};

use crate::config::{EcnFault, Impairments, Jitter, JitterDistribution, Loss, Reorder};
use crate::random::Stream;

/// A loss process; one draw for each packet.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    law: Loss,
    stream: Stream,
    count: u64,
    bad: bool,
    next: usize,
}

impl LossProcess {
    pub(crate) fn new(law: Loss, stream: Stream) -> Self {
        Self { law, stream, count: 0, bad: false, next: 0 }
    }

    pub(crate) fn set_law(&mut self, law: Loss) {
        self.law = law;
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(crate) fn loses(&mut self) -> bool {
        let index = self.count;
        self.count += 1;
        match &self.law {
            Loss::None => false,
            Loss::Bernoulli { p } => self.stream.chance(*p),
            Loss::GilbertElliott { p, r, loss_bad, loss_good } => {
                let flip = if self.bad { *r } else { *p };
                if self.stream.chance(flip) {
                    self.bad = !self.bad;
                }
                let loss = if self.bad { *loss_bad } else { *loss_good };
                loss > 0.0 && self.stream.chance(loss)
            }
            Loss::Nth { indexes } => {
                while indexes.get(self.next).is_some_and(|&at| at < index) {
                    self.next += 1;
                }
                indexes.get(self.next) == Some(&index)
            }
            Loss::Periodic { period } => (index + 1).is_multiple_of(*period),
        }
    }
}

/// ACKs that leave together, as after the wait for a transmit opportunity of Wi-Fi, cable or cellular
/// networks, and of which such networks may drop what a newer one makes needless (RFC 3449 section
/// 5.2.1; `ack-filter` of CAKE).
#[derive(Clone, Debug)]
struct AckBatches {
    period: u64,
    thinning: u32,
    /// Of each connection: when its newest batch leaves, and how many ACKs the newest of it stands for.
    newest: Vec<(u64, u32)>,
}

impl AckBatches {
    /// When an ACK that is ready at `time` leaves: the next multiple of the period, never at once.
    fn release(&self, time: u64) -> u64 {
        (time / self.period + 1) * self.period
    }

    /// Whether an ACK may take the place of the one before, at the same release.
    fn may_replace(&mut self, slot: u32, release: u64) -> bool {
        let slot = slot as usize;
        if slot >= self.newest.len() {
            self.newest.resize(slot + 1, (0, 0));
        }
        let (batch, count) = &mut self.newest[slot];
        let same = *batch == release && *count < self.thinning;
        (*batch, *count) = (release, if same { *count + 1 } else { 1 });
        same
    }
}

/// What happens to a packet on a link's propagation.
#[derive(Clone, Debug)]
pub(crate) struct Impairment {
    pub(crate) loss: LossProcess,
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    duplicate: f64,
    ecn: Option<EcnFault>,
    acks: Option<AckBatches>,
    stream: Stream,
    /// Latest arrival under jitter that keeps the order.
    last: u64,
}

impl Impairment {
    /// `None` if nothing ever happens.
    pub(crate) fn new(
        config: &Impairments,
        may_change: bool,
        seed: u64,
        name: &str,
    ) -> Option<Self> {
        let clean = matches!(config.loss, Loss::None)
            && config.jitter.is_none()
            && config.reorder.is_none()
            && config.duplicate == 0.0
            && config.ecn.is_none()
            && config.ack_aggregation_ns == 0
            && !may_change;
        (!clean).then(|| Self {
            loss: LossProcess::new(config.loss.clone(), Stream::new(seed, &format!("{name}/loss"))),
            jitter: config.jitter,
            reorder: config.reorder,
            duplicate: config.duplicate,
            ecn: config.ecn,
            acks: (config.ack_aggregation_ns > 0).then(|| AckBatches {
                period: config.ack_aggregation_ns,
                thinning: config.ack_thinning,
                newest: Vec::new(),
            }),
            stream: Stream::new(seed, &format!("{name}/jitter")),
            last: 0,
        })
    }

    /// Whether packets can leave in another order than they came.
    pub(crate) fn reorders(&self) -> bool {
        self.reorder.is_some() || self.jitter.is_some_and(|jitter| jitter.reorder)
    }

    /// Whether the delay is the same for all packets: they are lost or rewritten, no more.
    pub(crate) fn only_loses(&self) -> bool {
        self.reorder.is_none()
            && self.jitter.is_none()
            && self.duplicate == 0.0
            && self.acks.is_none()
    }

    /// Rewrite the ECN field.
    pub(crate) fn mangle(&self, packet: &mut Packet) {
        let ecn = packet.ecn();
        match self.ecn {
            Some(EcnFault::Bleach) => packet.set_ecn(Ecn::NotEct),
            Some(EcnFault::Ect0ToEct1) if ecn == Ecn::Ect0 => packet.set_ecn(Ecn::Ect1),
            Some(EcnFault::Ect1ToEct0) if ecn == Ecn::Ect1 => packet.set_ecn(Ecn::Ect0),
            Some(EcnFault::Ce) if ecn != Ecn::NotEct => packet.set_ecn(Ecn::Ce),
            _ => {}
        }
    }

    /// When a packet that is ready at `time` leaves, and whether it may take the place of the ACK
    /// before it.
    pub(crate) fn release(&mut self, packet: &Packet, time: u64) -> (u64, bool) {
        match &mut self.acks {
            Some(acks) if packet.kind == Kind::Ack => {
                let release = acks.release(time);
                (release, acks.may_replace(packet.flow, release))
            }
            _ => (time, false),
        }
    }

    /// The ACK before was needed after all: the newest stands for itself only.
    pub(crate) fn keep_both(&mut self, packet: &Packet) {
        if let Some(newest) =
            self.acks.as_mut().and_then(|acks| acks.newest.get_mut(packet.flow as usize))
        {
            newest.1 = 1;
        }
    }

    pub(crate) fn duplicates(&mut self) -> bool {
        self.duplicate > 0.0 && self.stream.chance(self.duplicate)
    }

    /// When a packet that leaves at `time` for a path of `base` nanoseconds arrives. Jitter keeps the
    /// order unless it may not; a packet held back for reordering is passed by those after it.
    pub(crate) fn arrival(&mut self, time: u64, base: u64) -> u64 {
        let mut arrival = time + base;
        if let Some(jitter) = self.jitter {
            let amount = jitter.amount_ns as f64;
            let added = match jitter.distribution {
                JitterDistribution::Uniform => amount * self.stream.uniform(),
                JitterDistribution::Normal => amount * self.stream.normal(),
                JitterDistribution::Exponential => self.stream.exponential(amount),
            };
            arrival = time + (base as f64 + added).max(0.0) as u64;
            if !jitter.reorder {
                self.last = self.last.max(arrival);
                arrival = self.last;
            }
        }
        match self.reorder {
            Some(reorder) if self.stream.chance(reorder.probability) => arrival + reorder.delay_ns,
            _ => arrival,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(law: Loss, packets: u32) -> f64 {
        let mut process = LossProcess::new(law, Stream::new(7, "loss"));
        f64::from((0..packets).map(|_| u32::from(process.loses())).sum::<u32>())
            / f64::from(packets)
    }

    #[test]
    fn bernoulli_loses_its_fraction() {
        assert!((rate(Loss::Bernoulli { p: 0.01 }, 1_000_000) / 0.01 - 1.0).abs() < 0.03);
    }

    /// Stationary share of the bad state: p / (p + r); mean burst length: 1 / r.
    #[test]
    fn gilbert_elliott_has_its_stationary_loss() {
        let law = Loss::GilbertElliott { p: 0.01, r: 0.2, loss_bad: 1.0, loss_good: 0.0 };
        assert!((rate(law, 1_000_000) / (0.01 / 0.21) - 1.0).abs() < 0.03);
    }

    /// Jitter alone keeps the order; an explicit reordering still lets later packets pass.
    #[test]
    fn jitter_keeps_the_order() {
        let jitter = Jitter {
            distribution: JitterDistribution::Normal,
            amount_ns: 5_000_000,
            reorder: false,
        };
        let arrivals = |reorder| {
            let config = Impairments { jitter: Some(jitter), reorder, ..Impairments::default() };
            let mut impairment = Impairment::new(&config, false, 1, "link").unwrap();
            (0..2000).map(|n| impairment.arrival(n * 100_000, 10_000_000)).collect::<Vec<u64>>()
        };
        assert!(arrivals(None).is_sorted());
        let reorder = Reorder { probability: 0.05, delay_ns: 20_000_000 };
        assert!(!arrivals(Some(reorder)).is_sorted());
    }

    #[test]
    fn scripted_losses_hit_exactly() {
        let lost = |law: Loss| {
            let mut process = LossProcess::new(law, Stream::new(7, "loss"));
            (0..10).filter(|_| process.loses()).collect::<Vec<u64>>()
        };
        assert_eq!(lost(Loss::Nth { indexes: vec![0, 3, 4] }), [0, 3, 4]);
        assert_eq!(lost(Loss::Periodic { period: 4 }), [3, 7]);
    }
}
