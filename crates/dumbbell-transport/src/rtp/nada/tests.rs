use serde_json::{Map, json};

use super::*;
use crate::rtp::control::PacketResult;
use crate::rtp::loop_testing::{Loop, MS, SECOND, controller, feed};

fn params(given: serde_json::Value) -> Params {
    let given = given.as_object().cloned().unwrap_or_else(Map::new);
    Params::check(NAME, &info().params, &given).unwrap()
}

fn nada() -> Nada {
    Nada::new(&params(json!({})))
}

/// RFC 8698 section 4.2, equation 1 with QTH = 50 ms and LAMBDA = 0.5: below 50 ms as it is, then
/// 50 exp(-0.5 (d - 50)/50): 50 exp(-0.5) at 100 ms, 50 exp(-1.5) at 200 ms, 50 exp(-3.5) at 400 ms.
#[test]
fn long_queues_are_warped() {
    let constants = nada().constants;
    for (delay, warped) in [
        (10.0, 10.0),
        (49.9, 49.9),
        (50.0, 50.0),
        (100.0, 30.32653),
        (200.0, 11.15651),
        (400.0, 1.50987),
    ] {
        assert!((constants.warped(delay) - warped).abs() < 1e-5, "{delay}");
    }
}

/// Equation 2: 1 % of loss adds DLOSS = 10 ms, 2 % four times that; 1 % of marks DMARK = 2 ms; never
/// more than 500 ms in all.
#[test]
fn loss_and_marks_are_penalties() {
    let constants = nada().constants;
    for (delay, loss, marks, signal) in [
        (15.0, 0.0, 0.0, 15.0),
        (15.0, 0.01, 0.0, 25.0),
        (15.0, 0.02, 0.0, 55.0),
        (15.0, 0.0, 0.01, 17.0),
        (15.0, 0.01, 0.03, 43.0),
        (15.0, 0.2, 0.0, 500.0),
    ] {
        assert!((constants.signal(delay, loss, marks) - signal).abs() < 1e-9);
    }
}

/// Equation 3: QBOUND / (rtt + DELTA + DFILT): 50/(100 + 100 + 120) = 0.15625; at most 0.5.
#[test]
fn ramp_up_is_bounded_by_the_queue_it_may_cause() {
    let constants = nada().constants;
    assert!((constants.gamma(100.0) - 0.15625).abs() < 1e-12);
    assert!((constants.gamma(280.0) - 0.1).abs() < 1e-12);
    let short = Nada::new(&params(json!({"dfilt": 0, "delta": 1_000_000})));
    assert_eq!(short.constants.gamma(10.0), 0.5);
}

/// Equations 5 to 7 by hand: r = 1 Mbit/s of RMAX 1.5: x_o = 10 * 1.5 = 15 ms. With x = 25, before 20:
/// offset 10, change 5: 1e6 (1 - 0.5 * 0.2 * 0.02 - 0.5 * 2 * 0.01) = 988 000. At x = x_o, nothing moves.
#[test]
fn gradual_update_by_hand() {
    let constants = nada().constants;
    let rate = constants.gradual(1e6, 100.0, 25.0, 20.0, 1.5e6);
    assert!((rate - 988e3).abs() < 1e-6, "{rate}");
    let rate = constants.gradual(1e6, 100.0, 15.0, 15.0, 1.5e6);
    assert!((rate - 1e6).abs() < 1e-6, "{rate}");
}

/// Equation 4: 1 000 bytes each 10 ms are received at 800 kbit/s: r_ref = 1.15625 times that.
#[test]
fn ramp_up_follows_what_is_received() {
    let mut nada = nada();
    nada.on_start(0);
    feed(&mut nada, SECOND, 10 * MS, 1000, 10, &[Some(50); 100]);
    assert_eq!(nada.phase(), "ramp-up");
    assert!((nada.target_rate() - 925e3).abs() < 1.0, "{}", nada.target_rate());
}

/// A loss, or one packet that waited QEPS, in the last 500 ms: gradual. Both are forgotten after it.
#[test]
fn loss_or_a_queue_ends_the_ramp_up() {
    for event in [None, Some(60)] {
        let mut nada = nada();
        nada.on_start(0);
        let mut delays = vec![Some(50); 120];
        delays[80] = event;
        feed(&mut nada, SECOND, 10 * MS, 1000, 10, &delays);
        assert_eq!(nada.phase(), "gradual");
        feed(&mut nada, 3 * SECOND, 10 * MS, 1000, 10, &[Some(50); 60]);
        assert_eq!(nada.phase(), "ramp-up");
    }
}

/// LOGWIN = 500 ms holds three packets of a source with five a second: from the third on that waits
/// 60 ms, the least of what LOGWIN holds is 60 ms, though 15 packets would reach back to shorter
/// waits. After a pause longer than LOGWIN, nothing before it counts.
#[test]
fn the_least_delay_is_of_the_observation_window() {
    let mut nada = nada();
    nada.on_start(0);
    let (empty, queue) = (Some(50), Some(110));
    feed(&mut nada, SECOND, 200 * MS, 1000, 1, &[empty; 15]);
    feed(&mut nada, 4 * SECOND, 200 * MS, 1000, 1, &[queue; 2]);
    assert_eq!(nada.queueing, 0.0);
    feed(&mut nada, 4400 * MS, 200 * MS, 1000, 1, &[queue]);
    assert_eq!(nada.queueing, 60.0);
    feed(&mut nada, 10 * SECOND, 200 * MS, 1000, 1, &[empty]);
    feed(&mut nada, 20 * SECOND, 200 * MS, 1000, 1, &[queue]);
    assert_eq!(nada.queueing, 60.0);
}

/// One loss in 51 packets of LOGWIN, once: 0.1 / 51 (ALPHA = 0.1).
#[test]
fn loss_ratio_is_smoothed() {
    let mut nada = nada();
    nada.on_start(0);
    let mut delays = vec![Some(50); 110];
    delays[105] = None;
    feed(&mut nada, SECOND, 10 * MS, 1000, 10, &delays);
    assert!((nada.loss - 0.1 / 51.0).abs() < 1e-12, "{}", nada.loss);
}

/// After losses of every 20th packet, 200 ms of queue are warped to 11.15651 ms; 7 intervals later no
/// longer, blended over one more: half of each at 150 packets.
#[test]
fn warping_expires_after_seven_loss_intervals() {
    let mut nada = nada();
    nada.queueing = 200.0;
    assert_eq!(nada.delay_signal(), 200.0);
    for event in 1..=8u64 {
        for _ in 0..20 - u64::from(event > 1) {
            nada.intervals.received();
        }
        nada.intervals.lost(event * SECOND, 0);
    }
    let mut open = 1;
    for (packets, signal) in
        [(20, 11.15651), (140, 11.15651), (150, 105.578255), (160, 200.0), (500, 200.0)]
    {
        while open < packets {
            nada.intervals.received();
            open += 1;
        }
        assert!((nada.delay_signal() - signal).abs() < 1e-4, "{packets}");
    }
}

/// L = 1 500 bytes at 30 frames a second: 0.1 * 8 * 1500 * 30 = 36 kbit/s less from the encoder and
/// more onto the path (section 5.2.2, equations 11 to 14), 5 % of the rate at most, within the bounds.
#[test]
fn the_senders_queue_is_shaped_away() {
    let mut nada = nada();
    nada.set_rate(0, 1e6);
    for (queued, share) in [(1500, 36e3), (3000, 50e3), (u64::MAX, 50e3)] {
        nada.queued = queued;
        assert!((nada.target_rate() - 1e6 + share).abs() < 1e-6);
        assert!((nada.send_rate() - 1e6 - share).abs() < 1e-6);
    }
    nada.set_rate(0, 150e3);
    assert_eq!((nada.target_rate(), nada.send_rate()), (150e3, 157.5e3));
    nada.set_rate(0, 1.5e6);
    assert_eq!((nada.target_rate(), nada.send_rate()), (1.425e6, 1.5e6));
}

#[test]
fn the_rate_is_shared_and_set() {
    let mut nada = nada();
    nada.on_start(0);
    assert_eq!(nada.take_calculated(), None);
    feed(&mut nada, SECOND, 10 * MS, 1000, 10, &[Some(50); 20]);
    let rate = nada.take_calculated().unwrap();
    assert_eq!(rate, nada.target_rate());
    assert_eq!(nada.take_calculated(), None);
    nada.set_rate(0, 700e3);
    assert_eq!(nada.target_rate(), 700e3);
}

/// Equilibrium x = PRIO XREF RMAX / r of section 4.3: alone on 1 Mbit/s, 10 * 1.5 = 15 ms, at the rate
/// of the link.
#[test]
fn one_flow_keeps_fifteen_milliseconds_in_a_queue_of_one_megabit() {
    let mut path = Loop::fluid(1e6).with(0, controller("nada", json!({})));
    path.run(60 * SECOND);
    let seen = path.measure(60 * SECOND);
    assert!(seen.utilisation > 0.99 && seen.loss == 0.0, "{seen:?}");
    assert!((seen.queueing - 15.0).abs() < 1.5, "{seen:?}");
    let signal = path.mean_recorded(0, "x_curr_ms", 30 * SECOND);
    assert!((signal - 15.0).abs() < 0.5, "{signal}");
}

/// As above with frames 30 times a second in packets of up to 1 200 bytes. Part of the signal is how
/// much longer they take than the smallest packet; and as part of a frame waits at the sender, r_ref
/// is above what is encoded, so that it is the product that is told: x r_ref = XREF RMAX.
#[test]
fn frames_shift_the_equilibrium_along_its_curve() {
    let mut path = Loop::new(1e6).with(0, controller("nada", json!({})));
    path.run(60 * SECOND);
    let signal = path.mean_recorded(0, "x_curr_ms", 60 * SECOND);
    let rate = path.mean_recorded(0, "r_ref", 60 * SECOND);
    assert!((signal * rate / 15e6 - 1.0).abs() < 0.02, "{signal} ms at {rate}");
    let seen = path.measure(60 * SECOND);
    assert!(seen.utilisation > 0.99 && seen.loss == 0.0, "{seen:?}");
    assert!(seen.queueing < 15.0, "{seen:?}");
}

/// RFC 8867 section 5.4: three flows on 3.5 Mbit/s, which begin 20 s apart, get equal shares. At
/// equilibrium each has 10 * 1.5 * 3 / 3.5 = 12.9 ms of signal.
#[test]
fn flows_get_equal_shares() {
    let flow = || controller("nada", json!({}));
    let mut path = Loop::fluid(3.5e6)
        .with(0, flow())
        .with(20 * SECOND + 11 * MS, flow())
        .with(40 * SECOND + 22 * MS, flow());
    path.run(120 * SECOND);
    let seen = path.measure(60 * SECOND);
    for rate in &seen.throughput {
        assert!((rate * 3.0 / 3.5e6 - 1.0).abs() < 0.05, "{seen:?}");
    }
    assert!(seen.utilisation > 0.99 && seen.loss == 0.0, "{seen:?}");
    let signal = path.mean_recorded(0, "x_curr_ms", 30 * SECOND);
    assert!((signal - 12.9).abs() < 0.5, "{signal}");
}

/// Marks alone slow a flow down: p_mark of 10 % is 2 (0.1/0.01)^2 = 200 ms.
#[test]
fn marks_slow_a_flow_down() {
    let mut nada = nada();
    nada.on_start(0);
    nada.set_rate(0, 1e6);
    for report in 1..=50u64 {
        let results: Vec<PacketResult> = (0..10)
            .map(|packet| {
                let sent = report * 100 * MS + packet * 10 * MS;
                let ecn = if packet == 3 { Ecn::Ce } else { Ecn::Ect0 };
                let arrival = Some(sent + 50 * MS);
                PacketResult {
                    seq: report * 10 + packet,
                    sent,
                    bytes: 1000,
                    arrival,
                    ecn,
                    probe: None,
                }
            })
            .collect();
        nada.mode = Mode::Gradual;
        nada.on_feedback(&Feedback {
            now: (report + 2) * 100 * MS,
            results: &results,
            rtt: 100 * MS,
            srtt: 100 * MS,
            in_flight: 0,
            queued: 0,
            backlog: 0,
            queue_delay: 0,
        });
    }
    assert!((nada.marks - 0.1).abs() < 0.01, "{}", nada.marks);
    assert!((nada.signal - 200.0).abs() < 20.0, "{}", nada.signal);
}
