//! Coverage-guided fuzzing of every queue (`make fuzz`): any parameters that it accepts, any packets, any
//! times. Under `cargo test` the same property runs for a second on random bytes, and on what fuzzing has
//! left in `__fuzz__`.

mod common;

use bolero::check;
use common::TestPacket;
use common::laws::Observed;
use dumbbell_queue::{CongestionHeader, Ecn, ParamInfo, QueueInfo, Unit, build, list};
use serde_json::{Map, Value, json};

/// Queues inside queues, and classes of one queue.
const MOST_NESTED: u32 = 2;
const MOST_CLASSES: u8 = 4;
/// Without a maximum, a number of things that take memory is drawn up to here.
const MOST_THINGS: u64 = 1 << 12;

/// Bytes that decisions are taken from; zeros at their end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn word(&mut self) -> u64 {
        u64::from(self.byte()) << 8 | u64::from(self.byte())
    }

    /// Of any order of magnitude.
    fn whole(&mut self) -> u64 {
        let shift = self.byte() % 64;
        (self.word() << 48 | 1 << 47) >> (63 - shift)
    }

    fn number(&mut self) -> f64 {
        let (exponent, sign) = (i32::from(self.byte() as i8), self.byte() % 8);
        let value = (self.word() as f64 + 1.0) / 256.0 * 2_f64.powi(exponent);
        if sign == 7 { -value } else { value }
    }

    /// The lowest value allowed, the highest, or one between.
    fn within(&mut self, param: &ParamInfo) -> f64 {
        let (low, high) = (param.minimum, param.maximum);
        match self.byte() % 8 {
            0 => low.unwrap_or(0.0),
            1 => high.unwrap_or(f64::from(u32::MAX)),
            2..=4 => {
                let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(1.0));
                low + (high - low) * self.word() as f64 / 65536.0
            }
            _ => self.number().clamp(low.unwrap_or(f64::MIN), high.unwrap_or(f64::MAX)),
        }
    }

    fn whole_within(&mut self, param: &ParamInfo) -> u64 {
        let (low, high) = (param.minimum.unwrap_or(0.0) as u64, param.maximum);
        let high = high.map_or(u64::MAX, |high| high as u64);
        match self.byte() % 8 {
            0 => low,
            1 => low.saturating_add(1).min(high),
            2 => high,
            3 | 4 => low + self.word() % (high - low).saturating_add(1),
            _ => self.whole().clamp(low, high),
        }
    }

    fn value(&mut self, param: &ParamInfo, nested: u32) -> Value {
        match param.unit {
            Unit::Bool => json!(self.byte() % 2 == 1),
            Unit::Choice => json!(param.choices[usize::from(self.byte()) % param.choices.len()]),
            Unit::Fraction | Unit::Number => json!(self.within(param)),
            Unit::Count => {
                let most = param.maximum.map_or(MOST_THINGS, |most| most as u64);
                json!(self.whole_within(param).min(most))
            }
            Unit::Time
            | Unit::Bytes
            | Unit::Packets
            | Unit::Segments
            | Unit::Rate
            | Unit::LinkRate => json!(self.whole_within(param)),
            Unit::Dscps => {
                json!((0..self.byte() % 4).map(|_| self.byte() % 64).collect::<Vec<_>>())
            }
            Unit::Queue => {
                let queues = if nested < MOST_NESTED { list() } else { list()[..1].to_vec() };
                let info = &queues[usize::from(self.byte()) % queues.len()];
                json!({"kind": info.name, "params": self.queue(info, nested + 1)})
            }
            Unit::Classes => Value::Null,
        }
    }

    fn params(&mut self, params: &[ParamInfo], nested: u32) -> Map<String, Value> {
        let mut values = Map::new();
        for param in params.iter().filter(|param| param.unit != Unit::Classes) {
            if self.byte().is_multiple_of(2) {
                values.insert(param.name.to_owned(), self.value(param, nested));
            }
        }
        values
    }

    /// Parameters of a queue, each in its range; not all go together.
    fn queue(&mut self, info: &QueueInfo, nested: u32) -> Map<String, Value> {
        let mut values = self.params(&info.params, nested);
        let classes = info.params.iter().find(|param| param.unit == Unit::Classes);
        if let Some(param) = classes
            && !self.byte().is_multiple_of(4)
        {
            let count = 1 + self.byte() % MOST_CLASSES;
            let list: Vec<_> = (0..count).map(|_| self.params(&info.classes, nested)).collect();
            values.insert(param.name.to_owned(), json!(list));
        }
        values
    }
}

/// Bytes of one call.
type Code = [u8; 8];

fn packet([flow, fields, high, low, dscp, a, b, c]: Code) -> TestPacket {
    let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(fields % 4)];
    let size = u32::from(high) << 8 | u32::from(low);
    // Most packets are no longer than on Ethernet; one is as long as IP allows.
    let bytes = if fields & 4 == 0 { 40 + size % 1475 } else { size.max(20) };
    let flow = u32::from(flow) << (fields >> 6);
    let real = |x: u8, y: u8| f32::from(x) * 10_f32.powi(i32::from(y) % 20 - 8);
    let xcp = CongestionHeader {
        rtt: real(a, b),
        throughput: real(b, c),
        feedback: if a % 2 == 0 { f32::INFINITY } else { real(c, a) - real(a, c) },
    };
    TestPacket {
        ecn,
        dscp: dscp % 64,
        // Each host has some flows.
        source: flow / 4,
        destination: flow % 4,
        label: if fields & 8 == 0 { 0.0 } else { real(a, b) },
        xcp: (fields & 16 != 0).then_some(xcp),
        ack: fields & 32 != 0,
        ..TestPacket::new(flow, 0, bytes)
    }
}

#[test]
fn any_calls_keep_the_laws() {
    let queues = list();
    check!().with_type::<(u8, Vec<u8>, Vec<(u8, Code)>)>().for_each(|(kind, params, codes)| {
        let info = &queues[usize::from(*kind) % queues.len()];
        let params = Bytes(params.iter()).queue(info, 0);
        let Ok(queue) = build(info.name, &params, 7) else { return };
        let limit = info.params.iter().find(|p| p.name == "limit" && p.unit == Unit::Packets);
        let limit = limit.and_then(|p| params.get("limit").unwrap_or(&p.default).as_u64());
        let name = format!("{} {}", info.name, json!(params));
        let mut observed = Observed::new(name, queue, limit);
        for &(call, code) in codes {
            match call % 8 {
                0..=3 => observed.offer(packet(code)),
                4 | 5 => _ = observed.take(),
                // Up to a millisecond; up to a second, or to a day where nothing waits.
                6 => observed.wait(u64::from(code[0]) << (code[1] % 12)),
                _ => {
                    let orders = if observed.is_empty() { 40 } else { 23 };
                    observed.wait(u64::from(code[0]) << (code[1] % orders));
                }
            }
        }
        observed.drain();
    });
}
