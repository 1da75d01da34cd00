//! Names, parameters and errors of the registry.

use dumbbell_cc::registry::SIGNALS;
use dumbbell_cc::{SSTHRESH_INFINITE, build, list};
use serde_json::{Map, Value, json};

fn error(kind: &str, params: &Value) -> String {
    let message = match build(kind, params.as_object().unwrap(), 0) {
        Ok(_) => panic!("{kind} {params} was accepted"),
        Err(error) => error.to_string(),
    };
    assert!(!message.contains('\n'));
    message
}

#[test]
fn every_controller_builds_with_its_defaults() {
    for info in list() {
        let cc = build(info.name, &Map::new(), 0).unwrap();
        assert_eq!(cc.name(), info.name);
        assert_eq!(cc.ssthresh(), SSTHRESH_INFINITE);
        // Its described defaults are themselves valid values.
        let defaults = info.params.iter().map(|p| (p.name.to_owned(), p.default.clone())).collect();
        build(info.name, &defaults, 0).unwrap();
    }
}

#[test]
fn names_are_sorted_and_described() {
    let infos = list();
    assert!(infos.windows(2).all(|pair| pair[0].name < pair[1].name));
    for info in infos {
        assert!(!info.summary.is_empty() && !info.source.is_empty());
        assert!(!info.signals.is_empty(), "{}", info.name);
        assert!(info.signals.iter().all(|signal| SIGNALS.contains(signal)), "{}", info.name);
        assert!(info.signals.len() == 1 || !info.signals.contains(&"none"), "{}", info.name);
        for param in info.params {
            assert!(!param.doc.is_empty(), "{}", param.name);
            assert_eq!(param.unit == "choice", !param.choices.is_empty(), "{}", param.name);
        }
    }
}

#[test]
fn every_bound_is_enforced() {
    for info in list() {
        for param in &info.params {
            let mut bad = vec![json!([1])];
            bad.extend(param.minimum.map(|m| json!(m - 1.0)));
            bad.extend(param.maximum.map(|m| json!(m * 2.0 + 1.0)));
            if param.unit != "bool" {
                bad.push(json!(true));
            }
            if param.unit != "choice" {
                bad.push(json!("cwnd"));
            }
            for value in bad {
                let message = error(info.name, &json!({ param.name: value }));
                assert!(message.contains(param.name) && message.contains("expected"), "{message}");
            }
        }
    }
}

#[test]
fn names_are_in_order() {
    let names: Vec<_> = list().iter().map(|info| info.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
}

#[test]
fn misspelt_names_get_the_nearest() {
    assert_eq!(
        error("cubik", &json!({})),
        r#"unknown congestion controller "cubik": did you mean "cubic"?"#
    );
    assert_eq!(
        error("zz", &json!({})),
        format!(
            r#"unknown congestion controller "zz": expected one of {}"#,
            list().iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
        )
    );
    assert_eq!(
        error("reno", &json!({"betta": 0.5})),
        r#"reno: unknown parameter "betta": did you mean "beta"?"#
    );
}

#[test]
fn wrong_values_say_what_was_expected() {
    assert_eq!(
        error("reno", &json!({"beta": 1.5})),
        "reno: beta = 1.5: expected a fraction from 0.01 to 0.99"
    );
    assert_eq!(
        error("cubic", &json!({"basis": "flight"})),
        r#"cubic: basis = "flight": expected one of cwnd, inflight"#
    );
    assert_eq!(
        error("fixed", &json!({"window": 2.5})),
        "fixed: window = 2.5: expected a whole number of segments from 1 to 1000000000"
    );
    assert_eq!(error("cubic", &json!({"linux": 1})), "cubic: linux = 1: expected true or false");
}

#[test]
fn fixed_and_rate_do_what_they_are_told() {
    let start = dumbbell_cc::Start {
        now: 0,
        mss: 1000,
        initial_window: 10_000,
        rtt: None,
        ecn: dumbbell_cc::EcnMode::Off,
    };
    let mut fixed = build("fixed", json!({"window": 25}).as_object().unwrap(), 0).unwrap();
    fixed.on_start(&start);
    assert_eq!((fixed.cwnd(), fixed.pacing_rate()), (25_000, None));
    let mut rate = build("rate", json!({"rate": 8e6}).as_object().unwrap(), 0).unwrap();
    rate.on_start(&start);
    assert_eq!(rate.pacing_rate(), Some(1e6));
    assert!(rate.cwnd() >= 1 << 40);
    let mut both =
        build("rate", json!({"rate": 8e6, "window": 4}).as_object().unwrap(), 0).unwrap();
    both.on_start(&start);
    assert_eq!(both.cwnd(), 4000);
}
