//! Every parameter of every queue reaches it: some other value changes what the queue does under a load
//! that has a bit of everything.

use crate::common::{MS, TestPacket};
use dumbbell_queue::{
    CongestionHeader, Dequeued, DropReason, Dropped, Ecn, ParamInfo, QueueInfo, Unit, build, list,
};
use serde_json::{Map, Value, json};

/// What must be set so that a parameter counts, by queue and parameter.
fn needed(queue: &str, param: &str) -> Value {
    match (queue, param) {
        ("fq_codel", "drop_batch") => json!({"limit": 20}),
        ("pie" | "fq_pie", "ecn_threshold") | ("red", "harddrop") => json!({"ecn": true}),
        ("bls", "resume_credit") => json!({"frames": 3}),
        ("sce", "knee") => json!({"ramp": "straddling"}),
        ("sce", "quantum") => json!({"flows": 1024}),
        // Of many flows, those with little queued keep the one AQM from acting.
        ("lfq", "ecn") => json!({"flows": 1}),
        ("cake", "knee") => json!({"sce": "straddling"}),
        ("diffserv", "ef_burst") => json!({"ef_rate": 500_000}),
        ("diffserv", "ef_limit") => json!({"ef_dscp": [0, 10, 12, 46]}),
        ("diffserv", "quantum") => json!({"scheduler": "drr"}),
        ("dualpi2", "min_th" | "range") => json!({"l_aqm": "ramp"}),
        ("dualpi2", "tshift") => json!({"scheduler": "tsfifo"}),
        ("xcp", "shuffling") => json!({"rate": 22_000_000}),
        ("abc", "meter") | ("csfq", "edge") => json!({}),
        ("abc", "priority_factor") => json!({"meter": true, "priority_dscp": [10, 46]}),
        ("abc", "target") => json!({"meter": true, "aqm": "pie"}),
        ("abc", "base") => json!({"meter": true, "form": "queue"}),
        ("abc", "burst_activity") => json!({"meter": true, "burst": 100_000}),
        ("abc", _) => json!({"meter": true}),
        ("csfq", _) => json!({"edge": true}),
        ("tbf", "peakrate") => json!({"rate": 1_000_000, "burst": 200_000}),
        ("tbf", "mtu") => json!({"rate": 1_000_000, "burst": 200_000, "peakrate": 3_000_000}),
        ("sfb", "db") => json!({"rehash": 1_000 * MS}),
        ("sfb", "penalty_rate" | "penalty_burst") => json!({"increment": 0.5}),
        _ => json!({}),
    }
}

/// The same of a parameter of the first class.
fn needed_in_class(queue: &str, param: &str) -> Value {
    match (queue, param) {
        ("diffserv", "pir" | "pbs") => json!({"meter": "trtcm", "cir": 100_000}),
        ("diffserv", "interval") => json!({"meter": "tswtcm"}),
        ("diffserv", "colour_aware" | "cir" | "cbs" | "ebs") => json!({"meter": "srtcm"}),
        ("htb", "ceil") => json!({"dscp": [0, 10, 12, 46], "rate": 1_000_000}),
        ("htb", "cburst") => json!({"dscp": [0, 10, 12, 46], "rate": 1_000_000, "ceil": 2_000_000}),
        _ => json!({}),
    }
}

/// Values other than the default, as far apart as the range allows.
fn others(info: &QueueInfo, param: &ParamInfo) -> Vec<Value> {
    let whole = |values: &[u64]| {
        let least = param.minimum.unwrap_or(0.0) as u64;
        let most = param.maximum.map_or(u64::MAX, |most| most as u64);
        values.iter().map(|&value| json!(value.clamp(least, most))).collect()
    };
    match param.unit {
        Unit::Bool => vec![json!(param.default != json!(true))],
        Unit::Choice => param.choices.iter().map(|choice| json!(choice)).collect(),
        Unit::Dscps => vec![json!([]), json!([0]), json!([10, 12, 46])],
        Unit::Queue => vec![json!({"kind": "codel", "params": {"limit": 3}})],
        Unit::Classes => vec![class(info, &[0, 8]), class(info, &[10, 46])],
        Unit::Fraction | Unit::Number => {
            let (least, most) = (param.minimum.unwrap_or(0.0), param.maximum.unwrap_or(10_000.0));
            let default = param.default.as_f64().unwrap_or(1.0);
            let values = [default / 8.0, default * 8.0, least, most];
            values.iter().map(|value| json!(value.clamp(least, most))).collect()
        }
        Unit::Time => whole(&[0, MS / 10, MS, 20 * MS, 200 * MS, 5000 * MS]),
        Unit::Rate | Unit::LinkRate => whole(&[100_000, 1_000_000, 5_000_000, 100_000_000]),
        Unit::Bytes => whole(&[0, 100, 1514, 6000, 20_000, 1_000_000]),
        Unit::Packets | Unit::Segments | Unit::Count => whole(&[0, 1, 2, 5, 20, 100, 1000, 40_000]),
    }
}

/// Classes, the first with these DSCPs where that is for the user to say.
fn class(info: &QueueInfo, dscps: &[u8]) -> Value {
    if info.name == "bls" {
        json!([{"dscp": dscps}, {"dscp": [12, 14]}, {}])
    } else if info.name == "abc" {
        json!([{"dscp": dscps, "reference_rate": 50_000}])
    } else if info.name == "csfq" {
        json!([{"dscp": dscps, "weight": 4.0}])
    } else if info.classes.iter().any(|param| param.name == "dscp") {
        json!([{"dscp": dscps}, {}])
    } else {
        json!([{}])
    }
}

/// (time, flow, number, codepoint, DSCP, label, feedback) of each packet that left.
type Left = (u64, u32, u64, Ecn, u8, f32, Option<f32>);

/// All that a queue did under the load.
#[derive(Debug, PartialEq)]
struct Behaviour {
    left: Vec<Left>,
    dropped: Vec<(u64, u32, u64, DropReason)>,
    recorded: Vec<(String, f64)>,
}

/// Two seconds of three times what the link takes, one of half of it, one idle, and one as the first: nine
/// flows of three hosts, of all codepoints and several DSCPs, large and small, some ACKs.
fn behaviour(kind: &str, params: &Map<String, Value>) -> Result<Behaviour, String> {
    let mut queue = build(kind, params, 1).map_err(|error| error.to_string())?;
    let mut dropped = Dropped::new();
    let mut found = Behaviour { left: Vec::new(), dropped: Vec::new(), recorded: Vec::new() };
    let (mut number, mut free_at) = (0_u64, 0_u64);
    let dscps = [0, 46, 10, 12, 14, 8, 0, 1, 34];
    let codepoints = [Ecn::Ect0, Ecn::NotEct, Ecn::Ect1];
    for tick in 0..50_000_u64 {
        let now = tick * MS / 10;
        let arrives = match tick / 10_000 {
            0 | 1 | 4 => tick % 4 == 0,
            2 => tick % 24 == 0,
            _ => false,
        };
        if arrives {
            let flow = (number * 7 % 9) as u32;
            let ack = flow == 4;
            let bytes = if ack { 60 } else { 1500 - 100 * flow };
            let mut packet = TestPacket::new(flow, number, bytes)
                .with_ecn(codepoints[flow as usize % 3])
                .with_dscp(dscps[flow as usize])
                .between(flow / 3, flow % 2);
            packet.ack = ack;
            packet.xcp = Some(CongestionHeader { rtt: 0.04, throughput: 1e5, feedback: 1e5 });
            queue.enqueue(now, packet, &mut dropped);
            number += 1;
        }
        while free_at <= now {
            let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped) else { break };
            // 10 Mbit/s.
            free_at = now + u64::from(packet.bytes) * 800;
            let feedback = packet.xcp.map(|header| header.feedback);
            found.left.push((
                now,
                packet.flow,
                packet.seq,
                packet.ecn,
                packet.dscp,
                packet.label,
                feedback,
            ));
        }
        let gone = dropped.drain(..).map(|(packet, why)| (now, packet.flow, packet.seq, why));
        found.dropped.extend(gone);
    }
    queue.record(5000 * MS, &mut |name, value| found.recorded.push((name.to_owned(), value)));
    Ok(found)
}

fn with(base: &Value, key: &str, value: &Value) -> Map<String, Value> {
    let mut params = crate::common::object(base.clone());
    params.insert(key.to_owned(), value.clone());
    params
}

#[test]
fn every_parameter_reaches_its_queue() {
    let mut without_effect = Vec::new();
    for info in list() {
        for param in &info.params {
            let base = needed(info.name, param.name);
            let plain = behaviour(info.name, &crate::common::object(base.clone())).unwrap();
            let changed = others(&info, param).into_iter().any(|value| {
                behaviour(info.name, &with(&base, param.name, &value))
                    .is_ok_and(|other| other != plain)
            });
            if !changed {
                without_effect.push(format!("{}.{}", info.name, param.name));
            }
        }
        for param in &info.classes {
            let base = needed(info.name, "classes");
            let mut plain = crate::common::object(base.clone());
            plain.entry("classes").or_insert_with(|| class(&info, &[10, 46]));
            for (key, value) in crate::common::object(needed_in_class(info.name, param.name)) {
                plain["classes"][0][key] = value;
            }
            let before = behaviour(info.name, &plain).unwrap();
            let changed = others(&info, param).into_iter().any(|value| {
                let mut params = plain.clone();
                params["classes"][0][param.name] = value;
                behaviour(info.name, &params).is_ok_and(|other| other != before)
            });
            if !changed {
                without_effect.push(format!("{}.classes.{}", info.name, param.name));
            }
        }
    }
    assert_eq!(without_effect, [""; 0]);
}
