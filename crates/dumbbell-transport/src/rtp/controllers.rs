//! All controllers for media by name.

use dumbbell_cc::{BuildError, ControllerInfo, ParamInfo, Params, Recipe, find};
use dumbbell_queue::Nanos;
use serde_json::{Map, Value};

use super::control::MediaController;
use super::{gcc, nada, scream};

struct Entry {
    name: &'static str,
    info: fn() -> ControllerInfo,
    build: fn(&Params, u64) -> Box<dyn MediaController>,
}

const CONTROLLERS: &[Entry] = &[
    Entry { name: gcc::NAME, info: gcc::info, build: gcc::build },
    Entry { name: nada::NAME, info: nada::info, build: nada::build },
    Entry { name: scream::NAME, info: scream::info, build: scream::build },
];

/// All controllers with their parameters, in the order of their names.
pub fn list() -> Vec<ControllerInfo> {
    CONTROLLERS.iter().map(|entry| (entry.info)()).collect()
}

/// A controller with checked parameters, to be built as often as flows begin.
pub type MediaRecipe = Recipe<dyn MediaController>;

/// Check the parameters of the controller called `kind`: canonical numbers (ns, bytes, bit/s).
///
/// # Errors
/// An unknown kind or parameter (with the nearest known name), or a value outside its range.
pub fn recipe(kind: &str, params: &Map<String, Value>) -> Result<MediaRecipe, BuildError> {
    let entry = find(CONTROLLERS, |entry| entry.name, kind)
        .map_err(|hint| BuildError::UnknownKind { kind: kind.into(), hint })?;
    let params = Params::check(entry.name, &(entry.info)().params, params)?;
    let (least, most) = (params.number("min_rate"), params.number("max_rate"));
    if least > most {
        return Err(BuildError::Invalid {
            kind: entry.name,
            name: "min_rate",
            value: least.to_string(),
            expected: format!("a rate of at most max_rate ({most})"),
        });
    }
    Ok(Recipe::of(params, entry.build))
}

const MS: Nanos = 1_000_000;

/// A time from 1 ms (or 0) to 10 000 s.
pub(super) fn time(
    name: &'static str,
    millis: u64,
    least_millis: u64,
    doc: &'static str,
) -> ParamInfo {
    ParamInfo::new(name, "time", millis * MS, ((least_millis * MS) as f64, 1e13), doc)
}

pub(super) fn fraction(name: &'static str, default: f64, doc: &'static str) -> ParamInfo {
    ParamInfo::new(name, "fraction", default, (0.0, 1.0), doc)
}

pub(super) fn number(
    name: &'static str,
    default: f64,
    range: (f64, f64),
    doc: &'static str,
) -> ParamInfo {
    ParamInfo::new(name, "number", default, range, doc)
}

/// What every controller has, and the answer to missing feedback.
pub(super) fn common_params(start_rate: f64, timeout_factor: f64) -> Vec<ParamInfo> {
    let range = (1e3, 1e12);
    vec![
        ParamInfo::new("min_rate", "rate", 150e3, range, "least rate (RFC 8593: 150 kbit/s)"),
        ParamInfo::new("max_rate", "rate", 1.5e6, range, "greatest rate (RFC 8593: 1.5 Mbit/s)"),
        ParamInfo::new(
            "start_rate",
            "rate",
            start_rate,
            range,
            "rate that the flow begins with, clipped to min_rate and max_rate",
        ),
        ParamInfo::new(
            "timeout_factor",
            "fraction",
            timeout_factor,
            (0.01, 1.0),
            "factor of the rate when feedback has been missing for long: ours",
        ),
    ]
}

/// Between which rates a controller moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Limits {
    pub(super) fn new(params: &Params) -> Self {
        Self { least: params.number("min_rate"), most: params.number("max_rate") }
    }

    /// The nearest rate within; the least one for what is no number.
    pub(super) fn clip(&self, rate: f64) -> f64 {
        rate.max(self.least).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use dumbbell_queue::Ecn;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::rtp::control::{Feedback, PacketResult, ProbeTag};
    use crate::rtp::loop_testing::{Loop, SECOND, controller};

    fn message(kind: &str, given: &Value) -> String {
        let given = given.as_object().cloned().unwrap_or_default();
        recipe(kind, &given).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn errors_are_one_line_that_names_the_key() {
        for (kind, given, expected) in [
            ("nadda", json!({}), r#"unknown congestion controller "nadda": did you mean "nada"?"#),
            (
                "nada",
                json!({"kapa": 1}),
                r#"nada: unknown parameter "kapa": did you mean "kappa"?"#,
            ),
            (
                "gcc",
                json!({"estimator": "median"}),
                r#"gcc: estimator = "median": expected one of trendline, kalman"#,
            ),
            (
                "scream",
                json!({"min_rate": 2e6}),
                "scream: min_rate = 2000000: expected a rate of at most max_rate (1500000)",
            ),
            ("scream", json!({"max_rate": 3e6, "min_rate": 2e6}), ""),
        ] {
            assert_eq!(message(kind, &given), expected);
        }
    }

    #[test]
    fn entries_are_in_order_and_build_what_they_name() {
        let names: Vec<_> = list().iter().map(|info| info.name).collect();
        assert_eq!(names, ["gcc", "nada", "scream"]);
        for name in names {
            let recipe = recipe(name, &Map::new()).unwrap();
            let mut built = recipe.build(0);
            built.on_start(0);
            assert_eq!(built.name(), name);
            let start = recipe.params()["start_rate"].as_f64().unwrap();
            assert_eq!(built.target_rate(), start);
        }
    }

    /// RFC 8593 section 4: 150 kbit/s to 1.5 Mbit/s; libwebrtc begins with 300 kbit/s.
    #[test]
    fn bounds_and_start() {
        for (kind, start) in [("gcc", 300e3), ("nada", 150e3), ("scream", 150e3)] {
            let params = recipe(kind, &Map::new()).unwrap().params();
            let rate = |name: &str| params[name].as_f64().unwrap();
            assert_eq!(
                (rate("min_rate"), rate("max_rate"), rate("start_rate")),
                (150e3, 1.5e6, start)
            );
        }
    }

    /// A receiver whose clock is 11 days ahead makes no difference at all.
    #[test]
    fn clocks_need_not_agree() {
        for kind in ["gcc", "nada", "scream"] {
            let path = || Loop::new(1e6).with(0, controller(kind, json!({})));
            let (mut near, mut far) = (path(), path());
            far.offset = 1_000_000 * SECOND;
            for _ in 0..300 {
                near.run(100 * MS);
                far.run(100 * MS);
                assert_eq!(near.rate(0), far.rate(0), "{kind}");
            }
        }
    }

    /// Without feedback the rate falls, and not below its least.
    #[test]
    fn missing_feedback_lowers_the_rate() {
        for (kind, factor) in [("gcc", 0.8), ("nada", 0.5), ("scream", 0.5)] {
            let mut built = controller(kind, json!({"start_rate": 1e6}));
            built.on_start(0);
            built.on_feedback_timeout(SECOND);
            assert_eq!(built.target_rate(), factor * 1e6, "{kind}");
            for second in 2..30 {
                built.on_feedback_timeout(second * SECOND);
            }
            assert_eq!(built.target_rate(), 150e3, "{kind}");
        }
    }

    /// Mostly plausible, sometimes absurd.
    fn times() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..10 * SECOND, 0..400 * MS, 0..400 * MS]
    }

    fn results() -> impl Strategy<Value = Vec<(u64, u32, Option<u64>, bool)>> {
        let bytes = prop_oneof![Just(0), any::<u32>(), 40..1500u32, 40..1500u32];
        let result = (0..50 * MS, bytes, proptest::option::weighted(0.8, times()), any::<bool>());
        proptest::collection::vec(result, 0..20)
    }

    type Report = (u64, Vec<(u64, u32, Option<u64>, bool)>, [u64; 4], u8);

    fn reports() -> impl Strategy<Value = Vec<Report>> {
        let numbers = [times(), times(), times(), times()];
        proptest::collection::vec((times(), results(), numbers, any::<u8>()), 1..60)
    }

    fn check(kind: &str, given: Value, reports: &[Report]) {
        let mut built = controller(kind, given);
        let (mut now, mut sent, mut seq) = (SECOND, 0u64, 0);
        built.on_start(now);
        for (elapsed, results, [rtt, srtt, in_flight, queued], event) in reports {
            now = now.saturating_add(*elapsed);
            let results: Vec<PacketResult> = results
                .iter()
                .map(|&(spacing, bytes, delay, marked)| {
                    sent = sent.saturating_add(spacing).min(now);
                    seq += 1;
                    let ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
                    let arrival = delay.map(|delay| sent.wrapping_add(delay));
                    let probe = (seq % 3 == 0).then_some(ProbeTag { cluster: 7, bytes: 1 });
                    PacketResult { seq, sent, bytes, arrival, ecn, probe }
                })
                .collect();
            match event {
                0..=9 => built.on_feedback_timeout(now),
                10..=19 => built.set_rate(now, *queued as f64),
                20..=29 => built.set_rate(now, f64::NAN),
                30..=89 => built.on_sent(now, *queued as u32, *in_flight),
                _ => built.on_feedback(&Feedback {
                    now,
                    results: &results,
                    rtt: *rtt,
                    srtt: *srtt,
                    in_flight: *in_flight,
                    queued: *queued,
                    backlog: *queued,
                    queue_delay: *elapsed,
                }),
            }
            let rate = built.target_rate();
            assert!((150e3..=1.5e6).contains(&rate), "{kind}: {rate}");
            assert!(built.send_rate().is_finite() && built.send_rate() >= 50e3, "{kind}");
            assert!(built.window().is_none_or(|window| window >= 3000), "{kind}");
            let calculated = built.take_calculated();
            assert!(calculated.is_none_or(|rate| (150e3..=1.5e6).contains(&rate)), "{kind}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn rates_stay_within_their_bounds_whatever_is_fed_back(reports in reports()) {
            check("gcc", json!({}), &reports);
            check("gcc", json!({"estimator": "kalman"}), &reports);
            check("nada", json!({}), &reports);
            check("scream", json!({}), &reports);
            check("scream", json!({"rate_control": "rfc", "adapt_target": false}), &reports);
        }
    }
}
