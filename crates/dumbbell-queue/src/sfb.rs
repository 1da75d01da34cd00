//! Stochastic Fair BLUE (Feng, Kandlur, Saha and Shin, 2002): BLUE, which raises a drop probability
//! when a queue is long and lowers it when it is empty, on each of the bins that flows are hashed to
//! at several levels. A flow is judged by the least of its bins, so that one that does not respond
//! fills its own bins and others escape through those they do not share with it.
//!
//! With one level of one bin this is BLUE.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values, child_seed};
use crate::random::uniform;
use crate::verdict::Verdict;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// Bits of a hash for each level, which bound the levels and the bins.
const BITS: u32 = 8;
const MOST_LEVELS: u32 = u64::BITS / BITS;
const MOST_BINS: u32 = 1 << BITS;
/// From this probability on ECN-capable packets are dropped too, increasingly (Linux sfb).
const DROPS_FROM: f64 = 0.5;
const HOUR: f64 = 3.6e12;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "sfb",
        summary: "Stochastic fair BLUE: a drop probability for each flow, without a queue for each",
        source: "Feng, Kandlur, Saha and Shin, IEEE/ACM ToN 2002; Linux sfb",
        params: vec![
            ParamInfo::new("levels", Unit::Count, 8, "Hash functions, each with bins of its own")
                .at_least(1.0)
                .at_most(f64::from(MOST_LEVELS)),
            ParamInfo::new("bins", Unit::Count, 16, "Bins of a level; 1 with 1 level is BLUE")
                .at_least(1.0)
                .at_most(f64::from(MOST_BINS)),
            ParamInfo::new(
                "target",
                Unit::Packets,
                20,
                "Packets in a bin from which on its probability rises",
            )
            .at_least(1.0),
            ParamInfo::new("max", Unit::Packets, 25, "Most packets in the emptiest bin of a flow")
                .at_least(1.0),
            ParamInfo::new("increment", Unit::Fraction, 0.0005, "One step of a probability up")
                .at_least(0.0)
                .at_most(1.0),
            ParamInfo::new("decrement", Unit::Fraction, 0.000_05, "One step down")
                .at_least(0.0)
                .at_most(1.0),
            ParamInfo::new(
                "freeze_time",
                Unit::Time,
                0,
                "Least time between two steps of a bin (BLUE has 100 ms)",
            )
            .at_most(HOUR),
            ParamInfo::new(
                "rehash",
                Unit::Time,
                600_000_000_000_u64,
                "Time between changes of the hash functions; 0 for never",
            )
            .at_most(1000.0 * HOUR),
            ParamInfo::new(
                "db",
                Unit::Time,
                60_000_000_000_u64,
                "Time for which the next hash functions learn beside the present ones",
            )
            .at_most(1000.0 * HOUR),
            ParamInfo::new(
                "penalty_rate",
                Unit::Count,
                10,
                "Packets a second let through of all flows whose probability is one",
            )
            .at_most(1e9),
            ParamInfo::new("penalty_burst", Unit::Packets, 20, "Burst of those").at_most(1e9),
            ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop")
                .at_least(1.0),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let rehash = values.whole("rehash");
    let shape =
        Shape { levels: values.whole("levels") as usize, bins: values.whole("bins") as usize };
    let burst = values.whole("penalty_burst") as f64;
    Ok(Box::new(Sfb {
        blue: Blue {
            target: values.whole("target"),
            increment: values.number("increment"),
            decrement: values.number("decrement"),
            freeze: values.whole("freeze_time"),
        },
        max: values.whole("max"),
        limit: values.whole("limit"),
        rehash: (rehash > 0).then_some(rehash),
        warm_up: values.whole("db").min(rehash),
        next_rehash: rehash,
        seed,
        tables: 1,
        table: Table::new(shape, child_seed(seed, 0)),
        next_table: None,
        penalty: Penalty { rate: values.whole("penalty_rate") as f64, burst, tokens: burst, at: 0 },
        random: Pcg32::seed_from_u64(seed),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

/// How the probability of a bin changes.
#[derive(Clone, Copy, Debug)]
struct Blue {
    target: u64,
    increment: f64,
    decrement: f64,
    freeze: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    packets: u64,
    probability: f64,
    /// When the probability may change again.
    free_at: Nanos,
}

impl Bin {
    /// A packet arrives at the bin.
    fn adapt(&mut self, now: Nanos, blue: &Blue) {
        if now < self.free_at {
            return;
        }
        let step = match self.packets {
            0 => -blue.decrement,
            packets if packets >= blue.target => blue.increment,
            _ => return,
        };
        let before = self.probability;
        self.probability = (before + step).clamp(0.0, 1.0);
        if self.probability != before {
            self.free_at = now.saturating_add(blue.freeze);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    levels: usize,
    bins: usize,
}

/// All bins under one set of hash functions.
#[derive(Debug)]
struct Table {
    shape: Shape,
    salt: u64,
    bins: Vec<Bin>,
}

/// What the bins of a flow say of it: the least of each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Least {
    packets: u64,
    probability: f64,
}

impl Table {
    fn new(shape: Shape, salt: u64) -> Self {
        Self { shape, salt, bins: vec![Bin::default(); shape.levels * shape.bins] }
    }

    /// Places of a flow's bins, one for each level.
    fn places(&self, flow_hash: u32) -> impl Iterator<Item = usize> + use<> {
        let Shape { levels, bins } = self.shape;
        let hash = child_seed(self.salt ^ u64::from(flow_hash), 0);
        (0..levels).map(move |level| {
            let part = (hash >> (level as u32 * BITS)) % u64::from(MOST_BINS);
            level * bins + ((part as usize * bins) >> BITS)
        })
    }

    /// A packet of a flow arrives.
    fn adapt(&mut self, now: Nanos, flow_hash: u32, blue: &Blue) -> Least {
        let mut least = Least { packets: u64::MAX, probability: 1.0 };
        for place in self.places(flow_hash) {
            let bin = &mut self.bins[place];
            bin.adapt(now, blue);
            least.packets = least.packets.min(bin.packets);
            least.probability = least.probability.min(bin.probability);
        }
        least
    }

    fn count_in(&mut self, flow_hash: u32) {
        for place in self.places(flow_hash) {
            self.bins[place].packets += 1;
        }
    }

    fn count_out(&mut self, flow_hash: u32) {
        for place in self.places(flow_hash) {
            self.bins[place].packets -= 1;
        }
    }
}

/// Token bucket, in packets, that all flows with probability one share.
#[derive(Clone, Copy, Debug)]
struct Penalty {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Nanos,
}

impl Penalty {
    fn admits(&mut self, now: Nanos) -> bool {
        let earned = self.rate * now.saturating_sub(self.at) as f64 / 1e9;
        self.tokens = (self.tokens + earned).min(self.burst);
        self.at = now;
        let admits = self.tokens >= 1.0;
        if admits {
            self.tokens -= 1.0;
        }
        admits
    }
}

#[derive(Debug)]
struct Sfb<P> {
    blue: Blue,
    max: u64,
    limit: u64,
    /// Time between changes of the hash functions, and how long before one the next ones learn.
    rehash: Option<Nanos>,
    warm_up: Nanos,
    next_rehash: Nanos,
    seed: u64,
    /// Tables made so far.
    tables: usize,
    table: Table,
    next_table: Option<Table>,
    penalty: Penalty,
    random: Pcg32,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet> Sfb<P> {
    /// A table with other hash functions that knows what is queued.
    fn fresh_table(&mut self) -> Table {
        let mut table = Table::new(self.table.shape, child_seed(self.seed, self.tables));
        self.tables += 1;
        for packet in self.backlog.iter() {
            table.count_in(packet.flow_hash());
        }
        table
    }

    fn change_hashes(&mut self, now: Nanos) {
        let Some(interval) = self.rehash else {
            return;
        };
        if now >= self.next_rehash {
            self.table = self.next_table.take().unwrap_or_else(|| self.fresh_table());
            self.next_rehash += ((now - self.next_rehash) / interval + 1) * interval;
        }
        if self.next_table.is_none()
            && self.warm_up > 0
            && now.saturating_add(self.warm_up) >= self.next_rehash
        {
            self.next_table = Some(self.fresh_table());
        }
    }

    /// The tests of an arriving packet: a verdict, or why it is refused outright.
    fn judge(&mut self, now: Nanos, least: Least) -> Result<Verdict, DropReason> {
        if self.backlog.packets() >= self.limit || least.packets >= self.max {
            return Err(DropReason::Overflow);
        }
        if least.probability >= 1.0 {
            let admitted = self.penalty.admits(now);
            return if admitted { Ok(Verdict::Pass) } else { Err(DropReason::Policed) };
        }
        let chance = uniform(&mut self.random);
        Ok(if chance >= least.probability {
            Verdict::Pass
        } else if chance < (least.probability - DROPS_FROM) * 2.0 {
            Verdict::Drop
        } else {
            Verdict::Mark
        })
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Sfb<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        self.change_hashes(now);
        let flow = packet.flow_hash();
        if let Some(next) = &mut self.next_table {
            next.adapt(now, flow, &self.blue);
        }
        let least = self.table.adapt(now, flow, &self.blue);
        let verdict = match self.judge(now, least) {
            Ok(verdict) => verdict,
            Err(reason) => {
                self.counters.drop(packet, reason, dropped);
                return Enqueued::Dropped;
            }
        };
        let Some((packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped) else {
            return Enqueued::Dropped;
        };
        self.table.count_in(flow);
        if let Some(next) = &mut self.next_table {
            next.count_in(flow);
        }
        self.backlog.push(now, packet);
        outcome
    }

    fn dequeue(&mut self, _now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let Some(packet) = self.backlog.pop() else {
            return Dequeued::Empty;
        };
        let flow = packet.flow_hash();
        self.table.count_out(flow);
        if let Some(next) = &mut self.next_table {
            next.count_out(flow);
        }
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        let bins = &self.table.bins;
        let sum: f64 = bins.iter().map(|bin| bin.probability).sum();
        let largest = bins.iter().map(|bin| bin.probability).fold(0.0, f64::max);
        out("mean_probability", sum / bins.len() as f64);
        out("largest_probability", largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section V of the paper: with M flows that fill their bins, another flow shares all of its L bins
    /// with some of them with probability (1 - (1 - 1/N)^M)^L. For N = 16, L = 2, M = 10: 0.2261.
    #[test]
    fn few_flows_share_all_bins_with_others() {
        let trials = 20_000;
        let mut caught = 0;
        for salt in 0..trials {
            let mut table = Table::new(Shape { levels: 2, bins: 16 }, child_seed(salt, 0));
            (1..=10).for_each(|flow| table.count_in(flow));
            caught += u32::from(table.places(0).all(|place| table.bins[place].packets > 0));
        }
        let share = f64::from(caught) / trials as f64;
        let expected = (1.0 - (15.0_f64 / 16.0).powi(10)).powi(2);
        assert!((expected - 0.2261).abs() < 1e-4);
        // Four standard deviations.
        assert!((share - expected).abs() < 0.012, "{share}");
    }
}
