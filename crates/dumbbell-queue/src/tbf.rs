//! Token bucket filter: packets leave as tokens allow, which come at a rate and are kept up to a burst.
//! As a shaper it lets the others wait, as a policer it drops them.

use serde_json::Value;

use crate::bucket::{Bucket, default_burst};
use crate::classes::{Class, Next};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "tbf",
        summary: "Token bucket filter: shapes or polices to a rate, with bursts",
        source: "Linux sch_tbf; RFC 2697 section 3 for the bucket",
        params: vec![
            ParamInfo::new("rate", Unit::LinkRate, 10_000_000, "Rate of the tokens").at_least(1.0),
            ParamInfo::new(
                "burst",
                Unit::Bytes,
                Value::Null,
                "Most tokens kept; a larger packet is dropped. Not given: 1 ms at the rate, at least \
                 3028 bytes",
            )
            .at_least(1.0),
            ParamInfo::new(
                "peakrate",
                Unit::Rate,
                Value::Null,
                "Rate at which a burst leaves; any if not given",
            )
            .at_least(1.0),
            ParamInfo::new("mtu", Unit::Bytes, 1514, "Burst of the peak rate: the largest packet")
                .at_least(1.0),
            ParamInfo::choice(
                "mode",
                &["shape", "police"],
                "Whether packets above the rate wait or are dropped",
            ),
            ParamInfo::new("limit", Unit::Packets, Value::Null, "Most packets that wait")
                .at_least(1.0),
            ParamInfo::new("limit_bytes", Unit::Bytes, Value::Null, "Most bytes that wait")
                .at_least(1.0),
            ParamInfo::new(
                "latency",
                Unit::Time,
                Value::Null,
                "Longest time that a packet waits for tokens; sets limit_bytes",
            ),
            ParamInfo::child("queue", "Where packets wait, with its own limit too"),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let rate = values.whole("rate");
    let burst = values.optional("burst").unwrap_or_else(|| default_burst(rate));
    let mtu = values.whole("mtu");
    let peak = values.optional("peakrate");
    if peak.is_some_and(|peak| peak < rate) {
        return Err(values.invalid("peakrate", "at least the rate"));
    }
    let limit_bytes = values.optional("limit_bytes");
    let latency = values.optional("latency");
    if limit_bytes.is_some() && latency.is_some() {
        return Err(values.invalid("latency", "no limit_bytes beside it"));
    }
    // Bytes that come within the latency, and the burst that is there before.
    let bytes_within = |latency: Nanos| {
        let bytes = u128::from(latency) * u128::from(rate) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(burst)
    };
    Ok(Box::new(Tbf {
        tokens: Bucket::new(rate, burst),
        peak: peak.map(|peak| Bucket::new(peak, mtu)),
        largest: if peak.is_some() { burst.min(mtu) } else { burst },
        police: values.choice("mode") == "police",
        limit: values.optional("limit").unwrap_or(u64::MAX),
        limit_bytes: limit_bytes.or_else(|| latency.map(bytes_within)).unwrap_or(u64::MAX),
        child: Class::new(values.child("queue", seed)?),
        refused: Counters::default(),
    }))
}

struct Tbf<P> {
    tokens: Bucket,
    peak: Option<Bucket>,
    /// Bytes of the largest packet that there can be tokens for.
    largest: u64,
    police: bool,
    limit: u64,
    limit_bytes: u64,
    child: Class<P>,
    /// What never came to the child.
    refused: Counters,
}

impl<P> Tbf<P> {
    /// When a packet of so many bytes may leave.
    fn ready(&mut self, now: Nanos, bytes: u32) -> Nanos {
        self.tokens.fill(now);
        let ready = self.tokens.ready(u64::from(bytes));
        match &mut self.peak {
            Some(peak) => {
                peak.fill(now);
                ready.max(peak.ready(u64::from(bytes)))
            }
            None => ready,
        }
    }

    fn take_tokens(&mut self, bytes: u32) {
        self.tokens.take(bytes);
        if let Some(peak) = &mut self.peak {
            peak.take(bytes);
        }
    }

    fn refuse(&mut self, packet: P, reason: DropReason, dropped: &mut Dropped<P>) -> Enqueued {
        self.refused.offered += 1;
        self.refused.drop(packet, reason, dropped);
        Enqueued::Dropped
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Tbf<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        let bytes = packet.bytes();
        let waiting = self.child.backlog().bytes.saturating_add(u64::from(bytes));
        if self.child.backlog().packets >= self.limit
            || waiting > self.limit_bytes
            || u64::from(bytes) > self.largest
        {
            return self.refuse(packet, DropReason::Overflow, dropped);
        }
        if self.police {
            if self.ready(now, bytes) > now {
                return self.refuse(packet, DropReason::Policed, dropped);
            }
            self.take_tokens(bytes);
        }
        self.child.enqueue(now, packet, dropped)
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        if self.police {
            return self.child.take(now, dropped);
        }
        let bytes = match self.child.next(now, dropped) {
            Next::Packet(packet) => packet.bytes(),
            Next::Wait(until) => return Dequeued::Wait(until),
            Next::Empty => return Dequeued::Empty,
        };
        let ready = self.ready(now, bytes);
        if ready > now {
            return Dequeued::Wait(ready);
        }
        self.take_tokens(bytes);
        self.child.take(now, dropped)
    }

    fn backlog(&self) -> Amount {
        self.child.backlog()
    }

    fn counters(&self) -> Counters {
        self.refused + self.child.counters()
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.tokens.fill(now);
        out("tokens_bytes", self.tokens.level());
        self.child.record(now, &mut |name, value| out(&format!("queue.{name}"), value));
    }
}
