//! Windows of single flows against traces of a Linux 7.2 kernel (50 Mbit/s frames, 40 ms, buffer of one
//! BDP). Skipped where the traces are not at hand. The pipe here is coarser than the simulator: no
//! delayed ACKs, no PRR, so this checks levels and periods, not single samples.

use std::path::Path;

use crate::common::{MS, S, controller, pipe::Pipe};
use serde_json::{Value, json};

const SEGMENT: u64 = 1448;

struct Trace {
    cwnd: Vec<f64>,
    ssthresh: Vec<f64>,
    goodput: f64,
    delay_ms: f64,
}

fn trace(name: &str) -> Option<Trace> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/kernel").join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no kernel trace at {}", path.display());
        return None;
    };
    let run: Value = serde_json::from_str(&text).expect("trace is JSON");
    let series = &run["flows"][0]["series"];
    let column = |key: &str| -> Vec<f64> {
        series[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    Some(Trace {
        cwnd: column("cwnd"),
        ssthresh: column("ssthresh"),
        goodput: run["summary"]["goodput_total_mbit"].as_f64().unwrap(),
        delay_ms: run["summary"]["backlog_delay_mean_ms"].as_f64().unwrap(),
    })
}

/// The same run in the pipe: cwnd and ssthresh every 100 ms, goodput (Mbit/s) and queue (ms) of 10..60 s.
fn run(kind: &str, loss: f64, seed: u64) -> Trace {
    let mut pipe = Pipe::new(controller(kind, &json!({})), 47.82e6, 40 * MS, 165);
    pipe.loss = loss;
    pipe.seed(seed);
    let (mut cwnd, mut ssthresh, mut next) = (Vec::new(), Vec::new(), 0);
    let (mut queue, mut weight, mut last, mut before) = (0.0, 0.0, 0, 0);
    pipe.run(60 * S, |pipe| {
        while next <= pipe.now {
            next += 100 * MS;
            cwnd.push((pipe.cc.cwnd() / SEGMENT) as f64);
            ssthresh.push((pipe.cc.ssthresh() / SEGMENT) as f64);
        }
        if pipe.now < 10 * S {
            before = pipe.delivered;
        } else {
            let elapsed = (pipe.now - last) as f64;
            queue += pipe.queue() as f64 * elapsed;
            weight += elapsed;
        }
        last = pipe.now;
    });
    Trace {
        cwnd,
        ssthresh,
        goodput: (pipe.delivered - before) as f64 * 8.0 / 50e6,
        delay_ms: queue / weight * (SEGMENT * 8) as f64 / 47.82e6 * 1e3,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Teeth of the sawtooth: falls from near the top to well below it.
fn teeth(cwnd: &[f64]) -> usize {
    let top = cwnd.iter().copied().fold(0.0, f64::max);
    let (mut high, mut count) = (false, 0);
    for &window in cwnd {
        if window > 0.95 * top {
            high = true;
        } else if high && window < 0.8 * top {
            high = false;
            count += 1;
        }
    }
    count
}

fn close(ours: f64, kernel: f64, relative: f64, absolute: f64) -> bool {
    (ours - kernel).abs() <= (relative * kernel).max(absolute)
}

/// Goodput within 2 %, mean queue within 2 ms or 15 %, mean window within 3 %.
#[test]
fn alone_on_the_link() {
    for kind in ["bbr", "cubic", "htcp", "reno", "scalable"] {
        let Some(kernel) = trace(&format!("a_single_{kind}.json")) else {
            return;
        };
        let ours = run(kind, 0.0, 1);
        assert!(close(ours.goodput, kernel.goodput, 0.02, 0.0), "{kind}: {} Mbit/s", ours.goodput);
        assert!(close(ours.delay_ms, kernel.delay_ms, 0.15, 2.0), "{kind}: {} ms", ours.delay_ms);
        let (window, expected) = (mean(&ours.cwnd[100..]), mean(&kernel.cwnd[100..]));
        assert!(close(window, expected, 0.03, 0.0), "{kind}: {window}, kernel {expected}");
        if kind != "bbr" {
            let (events, expected) = (teeth(&ours.cwnd[100..]), teeth(&kernel.cwnd[100..]));
            assert!(events.abs_diff(expected) <= 1, "{kind}: {events} teeth, kernel {expected}");
        }
    }
}

/// HyStart leaves at the same window: 246 segments, by the ACK train.
#[test]
fn cubic_leaves_slow_start_where_the_kernel_does() {
    let Some(kernel) = trace("a_single_cubic.json") else {
        return;
    };
    let ours = run("cubic", 0.0, 1);
    let exit = |trace: &Trace| *trace.ssthresh.iter().find(|s| **s < 1e6).unwrap();
    assert!((exit(&ours) - exit(&kernel)).abs() <= 2.0, "{}", exit(&ours));
}

/// The kernel's losses are random too (about 120 in its 60 s), so one run of it is good to 10 %.
#[test]
fn half_a_percent_of_random_loss() {
    for kind in ["bbr", "cubic", "reno", "scalable"] {
        let Some(kernel) = trace(&format!("d_loss_{kind}.json")) else {
            return;
        };
        let goodput = mean(&(1..=5).map(|seed| run(kind, 0.005, seed).goodput).collect::<Vec<_>>());
        assert!(close(goodput, kernel.goodput, 0.1, 0.0), "{kind}: {goodput} Mbit/s");
    }
}
