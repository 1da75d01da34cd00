//! PLT, priority-layered transport: a TCP flow of high priority, and beside it an aggressive flow of low
//! priority that fills what the first leaves (Venkataraman, Francis, Kodialam, Lakshman, "A
//! priority-layered approach to transport for high bandwidth-delay product networks", CoNEXT 2008).
//!
//! The high-priority congestion module (HCM) is the crate's own TCP end points with any window
//! controller. The low-priority one (LCM, [`low`]) has a window steered by its loss ratio. Both take data
//! from one [`scheduler`]; what the low class loses, the high class sends again. At the receiver both
//! come into one order. The paper leaves much open: each option whose description says "reconstruction" is
//! a choice made here.

mod high;
mod low;
mod receiver;
mod scheduler;
mod sender;
mod shutdown;
mod strong_ack;
#[cfg(test)]
mod tests;

use dumbbell_cc::{Controller, EcnMode, ParamInfo, Params};
use serde_json::Map;

use crate::flow::{Ends, Pair};
use crate::registry::{Given, Parts, TransportInfo};
use crate::tcp::{HEADER_BYTES, ReceiverConfig, SenderConfig, Window};

pub(crate) const NAME: &str = "plt";
/// What the TCP inside does as a scenario's flows do by default.
const ACK_EVERY: u32 = 2;
const DELACK: u64 = 40_000_000;
const MIN_RTO: u64 = 200_000_000;

pub(crate) fn info() -> TransportInfo {
    let mut options = common_options();
    options.extend(low_options());
    options.extend(shutdown_options());
    TransportInfo {
        name: NAME,
        summary: "Priority layers: TCP in the high class, an aggressive flow in the low one",
        source: "Venkataraman, Francis, Kodialam, Lakshman, CoNEXT 2008; RFC 8622 (lower effort)",
        controllers: "window",
        options,
    }
}

fn common_options() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "packet",
            "bytes",
            1500,
            (128.0, 60_000.0),
            "a full packet of the high class with its headers; those of the low class have the same \
             payload",
        ),
        ParamInfo::new(
            "initial_window",
            "segments",
            10,
            (1.0, 1e6),
            "window of the high class at the start",
        ),
        ParamInfo::new(
            "rwnd",
            "bytes",
            20_000_000,
            (10_000.0, 4e9),
            "receive window that both classes share; the default (reconstruction) is eight times the \
             product of 250 Mbit/s and 80 ms: the path, the queues of both classes, and what waits for a \
             retransmission",
        ),
        ParamInfo::new(
            "low_dscp",
            "count",
            1,
            (0.0, 63.0),
            "DSCP of the low class: lower effort (RFC 8622)",
        ),
        ParamInfo::flag(
            "lcm_rexmt_on_lcm",
            true,
            "let the low class, too, send again what it has lost (reconstruction: the paper leaves it \
             open; the high one alone cannot send all of it above a loss of about 0.5 %)",
        ),
        ParamInfo::new(
            "unblock_below",
            "fraction",
            0.1,
            (0.0, 1.0),
            "where less of the receive window is free, the high class first sends what the low one has \
             had outstanding for longer than two of its own round trips; 0: never (reconstruction, \
             after the opportunistic retransmission of MPTCP: Raiciu et al., NSDI 2012)",
        ),
        ParamInfo::flag(
            "tail_duplication",
            false,
            "at the end of the data, send what the high class has outstanding in the low class as \
             well (reconstruction)",
        ),
        ParamInfo::new(
            "strong_ack_every",
            "count",
            2,
            (1.0, 64.0),
            "low-class packets that a strong ACK answers, or those of 25 ms (reconstruction: as TCP)",
        ),
    ]
}

fn low_options() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "alpha",
            "number",
            1.1,
            (1.0, 100.0),
            "growth of the low class's window per round trip, applied as alpha - 1 packets for each \
             that arrives (reconstruction: with 2, what is lost of a window that has outgrown the path \
             is more than can be repaired in time)",
        ),
        ParamInfo::new(
            "beta",
            "fraction",
            0.8,
            (0.0, 0.99),
            "factor of the low class's window above mu, and at a timeout (reconstruction)",
        ),
        ParamInfo::new(
            "mu",
            "fraction",
            0.05,
            (0.0, 1.0),
            "loss ratio up to which the low class's window grows (reconstruction)",
        ),
        ParamInfo::new(
            "lcm_iw",
            "packets",
            2500,
            (1.0, 1e7),
            "window of the low class at the start (reconstruction)",
        ),
        ParamInfo::new(
            "line_rate",
            "rate",
            0,
            (0.0, 1e12),
            "rate at which the low class is paced, that of the sender's interface; 0: none",
        ),
        ParamInfo::new(
            "lcm_period",
            "packets",
            32,
            (1.0, 1e6),
            "packets of known fate that a measurement of loss takes at least, beside a round trip \
             (reconstruction)",
        ),
        ParamInfo::new(
            "lcm_reordering",
            "packets",
            3,
            (1.0, 128.0),
            "a low-class packet is lost when one sent so many later has arrived (reconstruction)",
        ),
        ParamInfo::new(
            "lcm_min_rto",
            "time",
            200_000_000,
            (1e6, 60e9),
            "least timeout of the low class (reconstruction)",
        ),
        ParamInfo::new(
            "lcm_max_rto",
            "time",
            1_000_000_000,
            (1e6, 120e9),
            "longest timeout of the low class: round trips of starved packets say nothing of the path \
             (reconstruction)",
        ),
        ParamInfo::new(
            "park_after",
            "count",
            3,
            (1.0, 100.0),
            "timeouts in a row after which the low class only probes, with a packet per round trip \
             (reconstruction)",
        ),
    ]
}

fn shutdown_options() -> Vec<ParamInfo> {
    vec![
        ParamInfo::choice(
            "shutdown",
            &["off", "auto"],
            "off",
            "auto: find out end to end whether the bottleneck gives priority, and use the high class \
             only where it does not; until then the low class's window is at most the high one's \
             (reconstruction: future work in the paper)",
        ),
        ParamInfo::new(
            "shutdown_train",
            "packets",
            3,
            (1.0, shutdown::MAX_TRAIN as f64),
            "most packets of a probe train in either class (reconstruction)",
        ),
        ParamInfo::new(
            "shutdown_trains",
            "count",
            10,
            (1.0, 1000.0),
            "trains that met a queue, for a verdict (reconstruction)",
        ),
        ParamInfo::new(
            "shutdown_threshold",
            "fraction",
            0.2,
            (0.0, 1.0),
            "share of overtaken pairs, or of the queueing delay that the high class is spared, above \
             which there is priority (reconstruction)",
        ),
        ParamInfo::new(
            "shutdown_queueing",
            "time",
            1_000_000,
            (0.0, 1e9),
            "delay above the least one that shows a queue (reconstruction)",
        ),
    ]
}

pub(crate) fn build(parts: &Parts, ends: &Ends, given: Given) -> Pair {
    let cc = match (given, &parts.window) {
        (Given::Window(cc), _) => cc,
        (_, Some(recipe)) => recipe.build(ends.seed),
        _ => reno(),
    };
    let config = config(&parts.options);
    let high = high::High::new(tcp_sender(&parts.options, ends), cc);
    let every = parts.options.count("strong_ack_every") as u32;
    let receiver = tcp_receiver(&parts.options, ends);
    Pair {
        sender: Box::new(sender::Sender::new(config, *ends, high)),
        receiver: Box::new(receiver::Receiver::new(
            *ends,
            receiver,
            config.rwnd,
            config.scale,
            every,
        )),
    }
}

/// What a scenario has that names no controller.
fn reno() -> Box<dyn Controller> {
    dumbbell_cc::registry::build("reno", &Map::new(), 0).expect("Reno has defaults for everything")
}

fn config(options: &Params) -> sender::Config {
    let mss = mss(options);
    // A window of less than a packet would let nothing through.
    let rwnd = options.count("rwnd").max(mss.into());
    let line_rate = options.number("line_rate");
    sender::Config {
        low: low::Config {
            alpha: options.number("alpha"),
            beta: options.number("beta"),
            mu: options.number("mu"),
            initial_window: options.count("lcm_iw") as f64,
            max_window: (rwnd / u64::from(mss)).max(1) as f64,
            period_packets: options.count("lcm_period"),
            reordering: options.count("lcm_reordering"),
            min_rto: options.time("lcm_min_rto"),
            max_rto: options.time("lcm_max_rto"),
            park_after: options.count("park_after") as u32,
        },
        low_dscp: options.count("low_dscp") as u8,
        mss,
        rwnd,
        scale: window_scale(rwnd),
        line_rate: if line_rate > 0.0 { line_rate } else { f64::INFINITY },
        rexmt_on_low: options.flag("lcm_rexmt_on_lcm"),
        unblock: options.number("unblock_below"),
        duplicate_tail: options.flag("tail_duplication"),
        shutdown: (options.choice("shutdown") == "auto").then(|| shutdown::Config {
            train: options.count("shutdown_train") as usize,
            trains: options.count("shutdown_trains") as usize,
            threshold: options.number("shutdown_threshold"),
            queueing: options.time("shutdown_queueing"),
        }),
    }
}

fn mss(options: &Params) -> u16 {
    options.count("packet") as u16 - HEADER_BYTES - high::OPTION_BYTES
}

/// So that the window fits into 16 bits (RFC 7323).
fn window_scale(rwnd: u64) -> u32 {
    (rwnd >> 16).checked_ilog2().map_or(0, |log| log + 1)
}

/// The receive window is PLT's own: TCP inside never waits for one.
fn tcp_sender(options: &Params, ends: &Ends) -> SenderConfig {
    SenderConfig {
        flow: ends.flow,
        generation: ends.generation,
        dscp: ends.dscp,
        mss: mss(options),
        initial_window: options.count("initial_window") as u32,
        ecn: EcnMode::Off,
        timestamps: true,
        prr: true,
        tlp: true,
        idle_restart: true,
        pacing: false,
        max_rate: f64::INFINITY,
        min_rto: MIN_RTO,
        window_scale: None,
        initial_rwnd: u64::MAX,
    }
}

fn tcp_receiver(options: &Params, ends: &Ends) -> ReceiverConfig {
    ReceiverConfig {
        flow: ends.flow,
        generation: ends.generation,
        dscp: ends.dscp,
        mss: mss(options),
        ack_every: ACK_EVERY,
        delack: DELACK,
        window: Window::Unlimited,
        timestamps: true,
        ecn: EcnMode::Off,
        feedback: false,
    }
}
