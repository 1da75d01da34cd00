//! Hierarchical token bucket with two levels: classes that each have a rate of their own, and borrow what
//! the others leave of the root's rate, up to their ceiling.
//!
//! A class may send while its ceiling's bucket and its rate's bucket are not in debt, or, where only the
//! latter is, while the root's is not. Those that need not borrow go first; among them, and among
//! borrowers, the lowest `prio` goes first, and classes of one `prio` take turns by their quantum.

use serde_json::{Value, json};

use crate::bucket::{Bucket, default_burst};
use crate::classes::{self, Classes};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{Amount, Built, Counters, Dequeued, Dropped, Enqueued, Nanos, Packet, QueueDiscipline};

/// tc-htb: priorities 0 to 7; a quantum is the rate in bytes over 10 (r2q), up to 200,000 bytes. Its least
/// is a full frame here, since turns are only fair with quanta of a packet or more.
const PRIORITIES: usize = 8;
const RATE_TO_QUANTUM: u64 = 10;
const QUANTUM: std::ops::RangeInclusive<u64> = 1514..=200_000;

/// Whether a class sends by its own rate or by the root's.
const OWN: usize = 0;
const BORROWED: usize = 1;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "htb",
        summary: "Hierarchical token bucket: rates of classes, which borrow what others leave",
        source: "Linux sch_htb (Devera 2002)",
        params: vec![
            ParamInfo::new("rate", Unit::LinkRate, 10_000_000, "Rate of all classes together")
                .at_least(1.0),
            burst("burst", "Most tokens of the root kept; 1 ms at its rate if not given"),
            ParamInfo::new("classes", Unit::Classes, json!([{}]), "The classes"),
        ],
        classes: class_info(),
    }
}

fn burst(name: &'static str, doc: &'static str) -> ParamInfo {
    ParamInfo::new(name, Unit::Bytes, Value::Null, doc).at_least(1.0)
}

fn class_info() -> Vec<ParamInfo> {
    let mut params = classes::info();
    params.extend([
        ParamInfo::new(
            "rate",
            Unit::Rate,
            Value::Null,
            "Rate that the class has whatever others do; an equal part of the root's if not given",
        )
        .at_least(1.0),
        ParamInfo::new(
            "ceil",
            Unit::Rate,
            Value::Null,
            "Rate up to which it borrows; the root's if not given",
        )
        .at_least(1.0),
        burst("burst", "Most tokens of the rate kept; 1 ms at it if not given"),
        burst("cburst", "Most tokens of the ceiling kept; 1 ms at it if not given"),
        ParamInfo::new("prio", Unit::Count, 0, "The lowest sends and borrows first")
            .at_most((PRIORITIES - 1) as f64),
        ParamInfo::new(
            "quantum",
            Unit::Bytes,
            Value::Null,
            "Bytes sent in a turn; those of 100 ms at the rate, 1514 to 200,000, if not given",
        )
        .at_least(1.0)
        .at_most(1e9),
    ]);
    params
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let rate = values.whole("rate");
    let classes = values.classes("classes", &class_info())?;
    let part = (rate / classes.len().max(1) as u64).max(1);
    let leaves: Vec<Leaf> = classes.iter().map(|class| Leaf::new(class, rate, part)).collect();
    let total = leaves.iter().fold(0_u64, |sum, leaf| sum.saturating_add(leaf.guaranteed));
    if total > rate {
        let expected = format!("at least the rates of the classes together, {total}");
        return Err(values.invalid("rate", expected));
    }
    for class in &classes {
        let (rate, ceil) = (class.optional("rate"), class.optional("ceil"));
        if ceil.is_some_and(|ceil| ceil < rate.unwrap_or(part)) {
            return Err(class.invalid("ceil", "at least the rate"));
        }
    }
    Ok(Box::new(Htb {
        root: Bucket::new(rate, values.optional("burst").unwrap_or_else(|| default_burst(rate))),
        classes: Classes::build(values, &classes, seed)?,
        leaves,
        turns: [[0; PRIORITIES]; 2],
    }))
}

/// What the scheduler knows of a class.
#[derive(Debug)]
struct Leaf {
    /// bit/s.
    guaranteed: u64,
    rate: Bucket,
    ceil: Bucket,
    priority: usize,
    quantum: i64,
    /// Bytes left in its turn, by own rate and borrowed.
    deficits: [i64; 2],
    /// Its queue has nothing to send before this time, unless a packet comes.
    idle_until: Nanos,
}

impl Leaf {
    fn new(values: &Values, root: u64, part: u64) -> Self {
        let rate = values.optional("rate").unwrap_or(part);
        let ceil = values.optional("ceil").unwrap_or(root);
        let bucket = |rate, burst: &str| {
            Bucket::new(rate, values.optional(burst).unwrap_or_else(|| default_burst(rate)))
        };
        let quantum = values.optional("quantum").unwrap_or_else(|| {
            (rate / 8 / RATE_TO_QUANTUM).clamp(*QUANTUM.start(), *QUANTUM.end())
        });
        Self {
            guaranteed: rate,
            rate: bucket(rate, "burst"),
            ceil: bucket(ceil, "cburst"),
            priority: values.whole("prio") as usize,
            quantum: quantum as i64,
            deficits: [0; 2],
            idle_until: 0,
        }
    }

    /// When it may send by its own rate.
    fn own_at(&self) -> Nanos {
        self.rate.ready(0).max(self.ceil.ready(0))
    }
}

struct Htb<P> {
    root: Bucket,
    classes: Classes<P>,
    leaves: Vec<Leaf>,
    /// The class whose turn it is, by own rate and borrowed, for each priority.
    turns: [[usize; PRIORITIES]; 2],
}

impl<P: Packet> Htb<P> {
    /// The class that sends now and how, or else when the first may.
    fn choose(&mut self, now: Nanos) -> Result<(usize, usize), Option<Nanos>> {
        self.root.fill(now);
        let root_at = self.root.ready(0);
        let count = self.leaves.len();
        let mut best: Option<((usize, usize, usize), usize)> = None;
        let mut first: Option<Nanos> = None;
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            if self.classes.get(index).is_empty() {
                continue;
            }
            leaf.rate.fill(now);
            leaf.ceil.fill(now);
            let borrowed_at = leaf.ceil.ready(0).max(root_at);
            let own_at = leaf.own_at();
            let at = own_at.min(borrowed_at).max(leaf.idle_until);
            if at > now {
                first = Some(first.map_or(at, |first| first.min(at)));
                continue;
            }
            let level = if own_at <= now { OWN } else { BORROWED };
            let turn = self.turns[level][leaf.priority];
            let distance = (index + count - turn) % count;
            let rank = (level, leaf.priority, distance);
            if best.is_none_or(|(best, _)| rank < best) {
                best = Some((rank, index));
            }
        }
        best.map(|((level, ..), index)| (index, level)).ok_or(first)
    }

    /// Accounts for a packet that a class sent.
    fn charge(&mut self, index: usize, level: usize, bytes: u32) {
        let leaf = &mut self.leaves[index];
        self.root.take(bytes);
        leaf.ceil.take(bytes);
        if level == OWN {
            leaf.rate.take(bytes);
        }
        let deficit = &mut leaf.deficits[level];
        *deficit -= i64::from(bytes);
        let turn = &mut self.turns[level][leaf.priority];
        *turn = index;
        if *deficit < 0 {
            *deficit += leaf.quantum;
            *turn = (index + 1) % self.leaves.len();
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Htb<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        let (index, outcome) = self.classes.enqueue(now, packet, dropped);
        self.leaves[index].idle_until = 0;
        outcome
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        loop {
            let (index, level) = match self.choose(now) {
                Ok(chosen) => chosen,
                Err(Some(until)) => return Dequeued::Wait(until),
                Err(None) => return Dequeued::Empty,
            };
            match self.classes.get(index).take(now, dropped) {
                Dequeued::Packet(packet) => {
                    self.charge(index, level, packet.bytes());
                    return Dequeued::Packet(packet);
                }
                Dequeued::Wait(until) => self.leaves[index].idle_until = until.max(now + 1),
                Dequeued::Empty => self.leaves[index].idle_until = Nanos::MAX,
            }
        }
    }

    fn backlog(&self) -> Amount {
        self.classes.backlog()
    }

    fn counters(&self) -> Counters {
        self.classes.counters()
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.root.fill(now);
        out("tokens_bytes", self.root.level());
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.rate.fill(now);
            out(&format!("class{index}.tokens_bytes"), leaf.rate.level());
        }
        self.classes.record(now, out);
    }
}
