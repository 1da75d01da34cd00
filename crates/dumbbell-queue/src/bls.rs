//! Burst limiting shaper, or priority switching scheduler: strict priority among EF, AF and DF, where
//! AF goes before DF or after it by a credit that its own transmissions raise.
//!
//! The credit bounds the share of the link that AF takes from DF, whatever EF leaves. It is brought up
//! to date at each dequeue from the time that passed, so that no timer is needed; a crossing is seen up
//! to one frame late.

use serde_json::{Value, json};

use crate::classes::{self, Classes};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, BuildError, Built, Counters, Dequeued, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// The classes in the order of the parameter.
const EF: usize = 0;
const AF: usize = 1;
const DF: usize = 2;
/// Priorities of the classes that are not shaped; the smallest goes first.
const EF_PRIORITY: u64 = 1;
const DF_PRIORITY: u64 = 3;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "bls",
        summary: "Strict priority of EF, AF and DF, with a credit that sends AF behind DF",
        source: "Finzi, Lochin, Mifdaoui and Frances, GLOBECOM 2017; draft-finzi-priority-switching-scheduler",
        params: vec![
            ParamInfo::new("rate", Unit::LinkRate, 10_000_000, "Rate of the link").at_least(1.0),
            ParamInfo::new(
                "weight",
                Unit::Fraction,
                0.5,
                "AF's weight over that of AF and DF, as of a weighted round robin that this replaces",
            )
            .at_least(0.0)
            .at_most(1.0),
            ParamInfo::new(
                "ef_share",
                Unit::Fraction,
                0.5,
                "Share of the link that EF is expected to take; AF gets weight (1 - ef_share)",
            )
            .at_least(0.0)
            .at_most(1.0),
            ParamInfo::new("frames", Unit::Packets, 100, "Frames that AF sends before it goes last")
                .at_least(1.0)
                .at_most(1e9),
            ParamInfo::new("mtu", Unit::Bytes, 1500, "Size of these frames")
                .at_least(64.0)
                .at_most(65_536.0),
            ParamInfo::new(
                "max_credit",
                Unit::Number,
                Value::Null,
                "Credit in bits at which AF goes last (L_M), in place of that from frames",
            )
            .at_least(1.0),
            ParamInfo::new(
                "resume_credit",
                Unit::Number,
                0.0,
                "Credit in bits at which AF goes before DF again (L_R)",
            )
            .at_least(0.0),
            ParamInfo::new(
                "idle_slope",
                Unit::Rate,
                Value::Null,
                "Fall of the credit while AF does not send, in place of AF's share of the rate",
            ),
            ParamInfo::new(
                "send_slope",
                Unit::Rate,
                Value::Null,
                "Rise of the credit while AF sends, in place of the rate less idle_slope",
            ),
            ParamInfo::new(
                "priority_high",
                Unit::Count,
                2,
                "AF's priority with credit below the maximum; EF has 1 and DF 3, the smallest goes first",
            ),
            ParamInfo::new("priority_low", Unit::Count, 4, "AF's priority until it resumes"),
            ParamInfo::new(
                "carry_overshoot",
                Unit::Bool,
                false,
                "Keep what the frame that crosses a bound of the credit goes beyond it",
            ),
            ParamInfo::new(
                "classes",
                Unit::Classes,
                json!([
                    {"dscp": [46, 44]},
                    {"dscp": [10, 12, 14, 18, 20, 22, 26, 28, 30, 34, 36, 38]},
                    {},
                ]),
                "EF, AF and DF",
            ),
        ],
        classes: classes::info(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let classes = values.classes("classes", &classes::info())?;
    if classes.len() != 3 {
        return Err(values.invalid("classes", "the three classes EF, AF and DF"));
    }
    let order = |af| {
        let mut order = [(EF_PRIORITY, EF), (af, AF), (DF_PRIORITY, DF)];
        order.sort_unstable();
        order.map(|(_, class)| class)
    };
    Ok(Box::new(Bls {
        classes: Classes::build(values, &classes, seed)?,
        shaper: Shaper::from_values(values)?,
        order_high: order(values.whole("priority_high")),
        order_low: order(values.whole("priority_low")),
    }))
}

/// Nanobits of a bit: what a slope in bit/s adds in a nanosecond is whole, so that a credit that is to
/// reach its bound with the last of some frames does so exactly.
const NANO: f64 = 1e9;

/// The credit of a class. Slopes are in bit/s, credits in nanobits.
#[derive(Clone, Debug)]
struct Shaper {
    rate: f64,
    max_credit: f64,
    resume_credit: f64,
    send_slope: f64,
    idle_slope: f64,
    /// How far the frame that crosses the maximum, or zero, may take the credit beyond it.
    over: f64,
    under: f64,
    credit: f64,
    low: bool,
    updated: Nanos,
    /// Time that the class's frame on the link still takes.
    sending: Nanos,
}

impl Shaper {
    fn from_values(values: &Values) -> Result<Self, BuildError> {
        let rate = values.whole("rate") as f64;
        let share = values.number("weight") * (1.0 - values.number("ef_share"));
        let idle_slope = values.optional_number("idle_slope").unwrap_or(share * rate);
        let send_slope =
            values.optional_number("send_slope").unwrap_or_else(|| (rate - idle_slope).max(0.0));
        let burst = values.number("frames") * values.number("mtu") * 8.0;
        let resume_credit = values.number("resume_credit") * NANO;
        // So many frames raise the credit from one bound to the other.
        let span = burst * NANO * send_slope / rate;
        let given = values.optional_number("max_credit").map(|bits| bits * NANO);
        let max_credit = given.unwrap_or(resume_credit + span);
        if resume_credit > max_credit {
            return Err(values.invalid("resume_credit", "no more than max_credit"));
        }
        let carried = if values.flag("carry_overshoot") {
            values.number("mtu") * 8.0 * NANO / rate
        } else {
            0.0
        };
        Ok(Self {
            rate,
            max_credit,
            resume_credit,
            send_slope,
            idle_slope,
            over: carried * send_slope,
            under: carried * idle_slope,
            credit: 0.0,
            low: false,
            updated: 0,
            sending: 0,
        })
    }

    /// Brings the credit to `now`: it rose while the class's frame was on the link, and fell since.
    fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.updated);
        let sent = passed.min(self.sending);
        self.sending -= sent;
        self.updated = self.updated.max(now);
        let ceiling =
            if self.credit < self.max_credit { self.max_credit + self.over } else { self.credit };
        self.credit = (self.credit + self.send_slope * sent as f64).min(ceiling);
        self.low |= self.credit >= self.max_credit;
        let floor = if self.credit > 0.0 { -self.under } else { self.credit };
        self.credit = (self.credit - self.idle_slope * (passed - sent) as f64).max(floor);
        self.low &= self.credit > self.resume_credit;
    }

    /// The link takes a frame, so that the one before has left.
    fn start(&mut self, shaped: bool, bytes: u32) {
        let time = f64::from(bytes) * 8.0 * NANO / self.rate;
        self.sending = if shaped { time.round() as Nanos } else { 0 };
    }
}

struct Bls<P> {
    classes: Classes<P>,
    shaper: Shaper,
    /// Classes in the order of service with AF at its high and at its low priority.
    order_high: [usize; 3],
    order_low: [usize; 3],
}

impl<P: Packet + Send> QueueDiscipline<P> for Bls<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.classes.enqueue(now, packet, dropped).1
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.shaper.advance(now);
        let order = if self.shaper.low { self.order_low } else { self.order_high };
        let mut wait = None;
        for class in order {
            match self.classes.get(class).take(now, dropped) {
                Dequeued::Packet(packet) => {
                    self.shaper.start(class == AF, packet.bytes());
                    return Dequeued::Packet(packet);
                }
                Dequeued::Wait(until) => wait = Some(wait.map_or(until, |w: Nanos| w.min(until))),
                Dequeued::Empty => {}
            }
        }
        wait.map_or(Dequeued::Empty, Dequeued::Wait)
    }

    fn backlog(&self) -> Amount {
        self.classes.backlog()
    }

    fn counters(&self) -> Counters {
        self.classes.counters()
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.shaper.advance(now);
        out("credit_bits", self.shaper.credit / NANO);
        out("af_low", f64::from(u8::from(self.shaper.low)));
        self.classes.record(now, out);
    }
}
