//! FAST-AT: FAST TCP whose alpha follows the throughput, in three steps with hysteresis.
//!
//! The NIST study (SP 500-282) names the values of alpha; when they apply is a reconstruction. It
//! begins with the largest, as FAST.

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::fast::{self, Fast};
use crate::loss_based::LossBased;
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;

pub(crate) const NAME: &str = "fast-at";

pub(crate) fn info() -> ControllerInfo {
    let mut params = Vec::new();
    for (name, default, doc) in [
        ("alpha_low", 8.0, "segments kept queued at low throughput (NIST study: 8)"),
        ("alpha_middle", 20.0, "segments kept queued at middling throughput (NIST study: 20)"),
        ("alpha_high", 200.0, "segments kept queued at high throughput (NIST study: 200)"),
    ] {
        params.push(ParamInfo::new(name, "number", default, (0.1, 1e6), doc));
    }
    for (name, default, doc) in [
        ("raise_middle", 1500.0, "segments/s above which alpha_low becomes alpha_middle"),
        ("raise_high", 15_000.0, "segments/s above which alpha_middle becomes alpha_high"),
        ("lower_middle", 12_500.0, "segments/s below which alpha_high becomes alpha_middle"),
        ("lower_low", 1250.0, "segments/s below which alpha_middle becomes alpha_low"),
    ] {
        params.push(ParamInfo::new(name, "number", default, (0.0, 1e12), doc));
    }
    params.push(ParamInfo::new(
        "tuning_rounds",
        "count",
        10,
        (1.0, 1e9),
        "round trips from one choice of alpha to the next",
    ));
    params.extend(fast::core_params());
    ControllerInfo {
        name: NAME,
        summary: "FAST with alpha chosen by throughput",
        source: "Jin, Wei, Low 2004; NIST SP 500-282",
        signals: &["loss", "ecn", "rtt", "delivery-rate"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let tuning = Tuning::new(params);
    let alpha = tuning.alpha();
    Box::new(LossBased::new(Fast::<true>::new(params, alpha, Some(tuning)), params))
}

/// Choice of alpha by the throughput of some round trips.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    alphas: [f64; 3],
    /// Segments/s above which each but the last of `alphas` gives way to the next, and below which
    /// each but the first gives way to the one before.
    raise: [f64; 2],
    lower: [f64; 2],
    period: u64,
    /// Index in `alphas`.
    level: usize,
    rounds: u64,
    /// Time and bytes delivered when the present period began.
    since: Option<(Nanos, u64)>,
}

impl Tuning {
    fn new(params: &Params) -> Self {
        Self {
            alphas: ["alpha_low", "alpha_middle", "alpha_high"].map(|name| params.number(name)),
            raise: ["raise_middle", "raise_high"].map(|name| params.number(name)),
            lower: ["lower_low", "lower_middle"].map(|name| params.number(name)),
            period: params.count("tuning_rounds"),
            level: 2,
            rounds: 0,
            since: None,
        }
    }

    fn alpha(&self) -> f64 {
        self.alphas[self.level]
    }

    /// A round trip is over: alpha from now on.
    pub(crate) fn end_round(&mut self, ack: &Ack) -> f64 {
        self.rounds += 1;
        let Some((since, delivered)) = self.since else {
            self.rounds = 0;
            self.since = Some((ack.now, ack.delivered));
            return self.alpha();
        };
        let elapsed = ack.now.saturating_sub(since);
        if self.rounds >= self.period && elapsed > 0 {
            let segments =
                ack.delivered.saturating_sub(delivered) as f64 / f64::from(ack.mss.max(1));
            self.choose(segments * 1e9 / elapsed as f64);
            self.rounds = 0;
            self.since = Some((ack.now, ack.delivered));
        }
        self.alpha()
    }

    /// One step at most.
    fn choose(&mut self, rate: f64) {
        if self.level < 2 && rate > self.raise[self.level] {
            self.level += 1;
        } else if self.level > 0 && rate < self.lower[self.level - 1] {
            self.level -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    /// Segments per second against alpha, up and down.
    #[test]
    fn alpha_follows_throughput_with_hysteresis() {
        let mut tuning = Tuning::new(&Params::check(NAME, &info().params, &Map::new()).unwrap());
        assert_eq!(tuning.alpha(), 200.0);
        for (rate, alpha) in [
            (12_501.0, 200.0),
            (12_499.0, 20.0),
            (1251.0, 20.0),
            (14_999.0, 20.0),
            (1249.0, 8.0),
            (1499.0, 8.0),
            (1501.0, 20.0),
            (15_001.0, 200.0),
            (100.0, 20.0),
            (100.0, 8.0),
        ] {
            tuning.choose(rate);
            assert_eq!(tuning.alpha(), alpha, "at {rate} segments/s");
        }
    }
}
