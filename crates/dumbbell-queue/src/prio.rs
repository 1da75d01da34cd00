//! Strict priority: the first class that has a packet sends it. The others starve while those before
//! them fill the link.

use serde_json::{Value, json};

use crate::classes::{self, Classes};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{Amount, Built, Counters, Dequeued, Dropped, Enqueued, Nanos, Packet, QueueDiscipline};

/// What waits for nothing: expedited forwarding (RFC 3246, RFC 5865), signalling and network control
/// (RFC 4594: CS5, CS6, CS7).
const FIRST: [u8; 5] = [40, 44, 46, 48, 56];
/// What may starve: lower effort (RFC 8622) and CS1, which had that meaning before.
const LAST: [u8; 2] = [1, 8];

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "prio",
        summary: "Strict priority among classes; the first that has a packet sends it",
        source: "Linux sch_prio; DSCPs after RFC 4594 and RFC 8622",
        params: vec![ParamInfo::new(
            "classes",
            Unit::Classes,
            three_bands(),
            "The classes, that of the highest priority first",
        )],
        classes: classes::info(),
    }
}

/// As many classes as tc-prio has by default.
fn three_bands() -> Value {
    let middle: Vec<u8> =
        (0..64).filter(|dscp| !FIRST.contains(dscp) && !LAST.contains(dscp)).collect();
    json!([{"dscp": FIRST}, {"dscp": middle}, {"dscp": LAST}])
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let classes = values.classes("classes", &classes::info())?;
    Ok(Box::new(Prio { classes: Classes::build(values, &classes, seed)? }))
}

struct Prio<P> {
    classes: Classes<P>,
}

impl<P: Packet + Send> QueueDiscipline<P> for Prio<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.classes.enqueue(now, packet, dropped).1
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        let mut first = None;
        for index in 0..self.classes.len() {
            match self.classes.get(index).take(now, dropped) {
                Dequeued::Packet(packet) => return Dequeued::Packet(packet),
                Dequeued::Wait(until) => first = Some(first.unwrap_or(until).min(until)),
                Dequeued::Empty => {}
            }
        }
        first.map_or(Dequeued::Empty, Dequeued::Wait)
    }

    fn backlog(&self) -> Amount {
        self.classes.backlog()
    }

    fn counters(&self) -> Counters {
        self.classes.counters()
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.classes.record(now, out);
    }
}
