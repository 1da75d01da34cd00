//! Both ends over a path.

use std::sync::Arc;

use dumbbell_cc::Params;
use dumbbell_queue::{Ecn, Nanos, Packet as _};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::control::{Feedback, MediaController, Probe};
use super::playout::{freezes, join};
use super::receiver::Receiver;
use super::sender::Sender;
use super::source::SourceConfig;
use super::transport::{Settings, info};
use crate::flow::{Arrival, Ends, Pair};
use crate::flow_testing::{Fate, MILLISECOND, Path, Run, SECOND, Way};
use crate::{Kind, Packet};

/// A constant rate; what feedback said is written into a log.
struct Constant {
    rate: f64,
    window: Option<u64>,
    probes: Vec<Probe>,
    log: Arc<std::sync::Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    received: u64,
    lost: u64,
    marked: u64,
    timeouts: u64,
    most_in_flight: u64,
    most_queued: u64,
    most_backlog: u64,
    /// Cluster, time of sending and bytes.
    probed: Vec<(u32, Nanos, u32)>,
}

impl MediaController for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }
    fn on_start(&mut self, _now: Nanos) {}
    fn on_feedback(&mut self, feedback: &Feedback) {
        let mut log = self.log.lock().unwrap();
        log.most_queued = log.most_queued.max(feedback.queued);
        log.most_backlog = log.most_backlog.max(feedback.backlog);
        for result in feedback.results {
            log.received += u64::from(result.arrival.is_some());
            log.lost += u64::from(result.arrival.is_none());
            log.marked += u64::from(result.ecn == Ecn::Ce);
            log.probed.extend(result.probe.map(|tag| (tag.cluster, result.sent, result.bytes)));
        }
    }
    fn on_sent(&mut self, _now: Nanos, _bytes: u32, in_flight: u64) {
        let mut log = self.log.lock().unwrap();
        log.most_in_flight = log.most_in_flight.max(in_flight);
    }
    fn on_feedback_timeout(&mut self, _now: Nanos) {
        self.log.lock().unwrap().timeouts += 1;
    }
    fn target_rate(&self) -> f64 {
        self.rate
    }
    fn send_rate(&self) -> f64 {
        self.rate * 2.0
    }
    fn window(&self) -> Option<u64> {
        self.window
    }
    fn take_probe(&mut self, _now: Nanos) -> Option<Probe> {
        self.probes.pop()
    }
    fn take_calculated(&mut self) -> Option<f64> {
        Some(self.rate)
    }
    fn set_rate(&mut self, _now: Nanos, rate: f64) {
        self.rate = rate;
    }
    fn phase(&self) -> &'static str {
        "constant"
    }
}

fn settings(options: &[(&str, Value)]) -> Settings {
    let map: Map<String, Value> = options.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
    Settings::new(&Params::check("rtp", &info().options, &map).unwrap())
}

fn pair(
    source: &str,
    rate: f64,
    window: Option<u64>,
    settings: &Settings,
) -> (Pair, Arc<std::sync::Mutex<Log>>) {
    probing_pair(source, rate, window, settings, Vec::new())
}

fn probing_pair(
    source: &str,
    rate: f64,
    window: Option<u64>,
    settings: &Settings,
    probes: Vec<Probe>,
) -> (Pair, Arc<std::sync::Mutex<Log>>) {
    let config: SourceConfig = serde_json::from_str(source).unwrap();
    config.check().unwrap();
    let log = Arc::default();
    let controller = Box::new(Constant { rate, window, probes, log: Arc::clone(&log) });
    let ends = Ends { seed: 1, ..Ends::default() };
    let sender = Sender::new(settings, Arc::new(config), controller, &ends);
    let receiver = Receiver::new(settings, &ends);
    (Pair { sender: Box::new(sender), receiver: Box::new(receiver) }, log)
}

const VIDEO: &str = r#"{"source": {"model": "video", "size_noise": 0, "interval_noise": 0}}"#;
const AUDIO: &str = r#"{"source": {"model": "audio"}}"#;

/// A target of 1.2 Mbit/s of IP packets at 30 frames a second is 5000 bytes a frame: 5 packets of at
/// most 1160 bytes with 200 bytes of headers, 4800 bytes of media. The pacer runs at twice the rate,
/// so that a packet of 1200 bytes takes 4 ms, and the frame is complete after 4 gaps and the way.
#[test]
fn frames_are_cut_and_paced() {
    let (pair, log) = pair(VIDEO, 1.2e6, None, &settings(&[]));
    let mut run = Run::new(pair, Path::delay(50 * MILLISECOND));
    run.until(10 * SECOND);
    let captured = run.pair.sender.captured();
    assert_eq!(captured.len(), 301);
    let steady: Vec<_> =
        run.forward.arrivals.iter().filter(|(_, p)| p.aux[0] >> 32 == 100).collect();
    let sizes: Vec<u16> = steady.iter().map(|(_, p)| p.ip_bytes).collect();
    assert_eq!(sizes, [1200, 1200, 1200, 1200, 200]);
    let gaps: Vec<_> = steady.windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert_eq!(gaps, [4 * MILLISECOND; 4]);
    let frames = join(captured, run.pair.receiver.media().unwrap(), run.now);
    assert_eq!(frames[100].captured.bytes, 4800);
    assert_eq!(frames[100].delay, Some(66 * MILLISECOND));
    // The rate of IP packets is the target, the bits of the first second's transient left out.
    let bits = run.goodput(2 * SECOND, 8 * SECOND);
    assert!((bits / (1.2e6 * 4800.0 / 5000.0) - 1.0).abs() < 0.01, "{bits}");
    let log = log.lock().unwrap();
    assert_eq!((log.lost, log.timeouts), (0, 0));
    // A report every 50 ms, on the way for 50 ms: 100 ms before the end nearly all is known.
    assert!(log.received + 20 >= run.forward.sent && log.received <= run.forward.sent);
    // Reports tell arrivals up to 1/1024 s late, and so how long they were held back too short.
    let rtt = run.pair.sender.rtt_sample().unwrap();
    assert!((100 * MILLISECOND..100 * MILLISECOND + SECOND / 1024).contains(&rtt), "{rtt}");
}

/// What was captured is delivered, lost, waits at the sender, or is on its way; and every frame without
/// a lost packet is completed. A tenth of packets and reports is lost.
#[test]
fn bytes_are_conserved() {
    let (pair, log) = pair(VIDEO, 1e6, None, &settings(&[]));
    let path = Path::delay(20 * MILLISECOND)
        .script(|crossing| if crossing.number % 10 == 3 { Fate::Lose } else { Fate::Pass });
    let mut run = Run::new(pair, path);
    run.until(60 * SECOND + 15 * MILLISECOND);
    let sent: u64 = run.forward.arrivals.iter().map(|(_, p)| u64::from(p.payload)).sum();
    assert_eq!(run.pair.receiver.delivered_bytes(), sent);
    let log = log.lock().unwrap();
    let (total, known) = (run.forward.sent, log.received + log.lost);
    assert!(total - known < 40, "{total} {known}");
    assert!(log.lost.abs_diff(run.forward.lost) < 5);
    let frames = join(run.pair.sender.captured(), run.pair.receiver.media().unwrap(), run.now);
    for (number, frame) in frames.iter().enumerate() {
        let got: u32 = run
            .forward
            .arrivals
            .iter()
            .filter(|(_, p)| p.aux[0] >> 32 == number as u64)
            .map(|(_, p)| u32::from(p.payload))
            .sum();
        assert_eq!(frame.delay.is_some(), got == frame.captured.bytes, "{number}");
        assert!(got <= frame.captured.bytes);
    }
}

/// Audio of 50 bytes every 20 ms: 90 bytes of IP, 36 kbit/s. A report every 50 ms covers 500 ms, 25 or 26
/// packets; it has 28 + 20 + 52 bytes.
#[test]
fn audio_is_reported_every_50_ms() {
    let (pair, _) = pair(AUDIO, 36e3, None, &settings(&[]));
    let mut run = Run::new(pair, Path::delay(10 * MILLISECOND));
    run.until(10 * SECOND);
    assert_eq!(run.forward.sent, 501);
    assert!(run.forward.arrivals.iter().all(|(_, p)| p.ip_bytes == 90));
    let reports = &run.back.arrivals;
    assert_eq!(reports.len(), 199);
    assert!(reports.windows(2).all(|w| w[1].0 - w[0].0 == 50 * MILLISECOND));
    assert!(reports[50..].iter().all(|(_, p)| p.ip_bytes == 100), "{:?}", reports[60]);
}

/// A window of 3 full packets.
#[test]
fn window_limits_bytes_in_flight() {
    let (pair, log) = pair(VIDEO, 1.2e6, Some(3600), &settings(&[]));
    let mut run = Run::new(pair, Path::delay(50 * MILLISECOND));
    run.until(5 * SECOND);
    let log = log.lock().unwrap();
    assert_eq!((log.most_in_flight, log.timeouts), (3600, 0));
    // At most 3 packets in 100 ms, and what a report's interval adds.
    let bits = run.goodput(SECOND, 5 * SECOND);
    assert!(bits < 3.0 * 1160.0 * 8.0 / 0.1 && bits > 3.0 * 1160.0 * 8.0 / 0.2, "{bits}");
}

/// The pacer runs at twice the rate and is done with a frame before the next: what waits is of the newest
/// one. A window of 3 packets leaves the rest behind.
#[test]
fn what_waits_of_older_frames_is_told() {
    for (window, waits) in [(None, false), (Some(3600), true)] {
        let (pair, log) = pair(VIDEO, 1.2e6, window, &settings(&[]));
        Run::new(pair, Path::delay(50 * MILLISECOND)).until(2 * SECOND);
        let log = log.lock().unwrap();
        assert!(log.most_queued > 0);
        assert_eq!(log.most_backlog > 0, waits, "{}", log.most_backlog);
        // Behind the window all of the newest frame waits, 5000 bytes.
        assert!(!waits || log.most_backlog + 5000 <= log.most_queued);
    }
}

/// Without a way back the controller hears of it after 500 ms, the window is freed, and so on.
#[test]
fn missing_feedback_is_told() {
    let (pair, log) = pair(VIDEO, 1.2e6, Some(3600), &settings(&[]));
    let path = Path::delay(50 * MILLISECOND).script(|crossing| match crossing.way {
        Way::Back => Fate::Lose,
        Way::Forward => Fate::Pass,
    });
    let mut run = Run::new(pair, path);
    run.until(SECOND * 51 / 10);
    assert_eq!(log.lock().unwrap().timeouts, 10);
    assert_eq!(run.pair.sender.stats().timeouts, 10);
    // Three packets in each of eleven windows; not all of the same size.
    assert!((33..=40).contains(&run.forward.sent), "{}", run.forward.sent);
}

/// Reports overlap by half a second: with every other one lost, all packets are told of.
#[test]
fn lost_reports_leave_no_hole() {
    let (pair, log) = pair(VIDEO, 1.2e6, None, &settings(&[]));
    let path = Path::delay(10 * MILLISECOND).script(|crossing| match crossing.way {
        Way::Back if crossing.number % 4 != 0 => Fate::Lose,
        _ => Fate::Pass,
    });
    let mut run = Run::new(pair, path);
    run.until(20 * SECOND);
    let log = log.lock().unwrap();
    assert_eq!(log.lost, 0);
    assert!(run.forward.sent - log.received < 50);
}

/// A sender's queue that is 100 ms old is emptied; the encoder starts anew with a key frame.
#[test]
fn stale_queue_is_discarded() {
    let options = [("max_queue_delay", Value::from(100 * MILLISECOND))];
    let (pair, _) = pair(VIDEO, 1.2e6, Some(3600), &settings(&options));
    let mut run = Run::new(pair, Path::delay(50 * MILLISECOND));
    run.until(20 * SECOND);
    let mut recorded = Vec::new();
    run.pair.sender.record(&mut |name, value| recorded.push((name, value)));
    let discarded = recorded.iter().find(|(name, _)| *name == "discarded_frames").unwrap().1;
    assert!(discarded > 50.0, "{discarded}");
    let keys = run.pair.sender.captured().iter().filter(|c| c.bytes == 13_500).count();
    // The first frame, and one for each second at most.
    assert!((15..=21).contains(&keys), "{keys}");
    let frames = join(run.pair.sender.captured(), run.pair.receiver.media().unwrap(), run.now);
    assert!(frames.iter().filter(|f| f.delay.is_none()).count() > 50);
    // Nothing waits much longer than a second and what is emptied once a second.
    assert!(frames.iter().filter_map(|f| f.delay).all(|delay| delay < 1300 * MILLISECOND));
}

/// One second without a packet is one freeze of a second.
#[test]
fn outage_is_a_freeze() {
    let (pair, _) = pair(VIDEO, 1e6, None, &settings(&[]));
    let path = Path::delay(10 * MILLISECOND).script(|crossing| {
        if (5 * SECOND..6 * SECOND).contains(&crossing.at) { Fate::Lose } else { Fate::Pass }
    });
    let mut run = Run::new(pair, path);
    run.until(10 * SECOND);
    let frames = join(run.pair.sender.captured(), run.pair.receiver.media().unwrap(), run.now);
    let found = freezes(&frames, 0, u64::MAX);
    assert_eq!(found.count, 1);
    assert!((found.seconds - 1.05).abs() < 0.05, "{}", found.seconds);
}

#[test]
fn ecn_codepoints_and_marks() {
    for (mode, codepoint) in [("off", Ecn::NotEct), ("classic", Ecn::Ect0), ("l4s", Ecn::Ect1)] {
        let (pair, log) = pair(AUDIO, 36e3, None, &settings(&[("ecn", mode.into())]));
        let path = Path::delay(MILLISECOND).script(|crossing| {
            let mark = crossing.way == Way::Forward && crossing.number % 5 == 0;
            if mark { Fate::Mark } else { Fate::Pass }
        });
        let mut run = Run::new(pair, path);
        run.until(SECOND);
        assert_eq!(run.forward.arrivals[1].1.ecn(), codepoint);
        assert!((log.lock().unwrap().marked as i64 - 10).abs() <= 1);
    }
}

/// Rates of others (RFC 8699): 1.5 Mbit/s of media are 6250 bytes a frame in 6 packets, 1.5576 Mbit/s.
#[test]
fn desired_rate_is_the_encoders_greatest() {
    let (mut pair, _) = pair(VIDEO, 1e6, None, &settings(&[]));
    pair.sender.on_start(0);
    let coupled = pair.sender.coupled().unwrap();
    let calculated = coupled.take_calculated().unwrap();
    assert_eq!(calculated.rate, 1e6);
    assert!((calculated.desired - 1.5576e6).abs() < 1.0, "{}", calculated.desired);
    coupled.set_rate(1, 5e5);
    assert_eq!(pair.sender.snapshot().rate, 1e6);
}

fn packets() -> impl Strategy<Value = (Nanos, Packet, Vec<Arrival>)> {
    let near = prop_oneof![0u64..40, any::<u64>()];
    let arrival =
        (near.clone(), any::<u64>()).prop_map(|(seq, at)| Arrival { seq, at, ecn: Ecn::NotEct });
    let words = [near.clone(), near.clone(), near.clone()];
    (
        0..300 * MILLISECOND,
        near.clone(),
        near,
        words,
        any::<u16>(),
        prop::collection::vec(arrival, 0..20),
    )
        .prop_map(|(wait, seq, timestamp, aux, payload, report)| {
            let kind = Kind::Payload;
            (wait, Packet { kind, seq, timestamp, aux, payload, ..Packet::default() }, report)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives, neither end panics, stands still or sends without end.
    #[test]
    fn arbitrary_packets_are_survived(input in prop::collection::vec(packets(), 1..60)) {
        let (mut pair, _) = pair(VIDEO, 1e6, Some(20_000), &settings(&[]));
        let mut now = 0;
        pair.sender.on_start(now);
        for (wait, packet, report) in input {
            now += wait;
            pair.receiver.on_packet(now, &packet);
            pair.sender.on_feedback(now, &packet, &report);
            while let Some(sent) = pair.sender.poll_transmit(now) {
                pair.receiver.on_packet(now, &sent);
            }
            while let Some(sent) = pair.receiver.poll_transmit(now) {
                let report = pair.receiver.report(&sent);
                pair.sender.on_feedback(now, &sent, report);
            }
            pair.receiver.report(&packet);
            if pair.sender.next_timeout() <= now {
                pair.sender.on_timeout(now);
                prop_assert!(pair.sender.next_timeout() > now || pair.sender.poll_transmit(now).is_some());
            }
            if pair.receiver.next_timeout() <= now {
                pair.receiver.on_timeout(now);
                prop_assert!(pair.receiver.next_timeout() > now);
            }
            prop_assert!(pair.sender.snapshot().in_flight >= 0.0);
        }
        let frames = join(pair.sender.captured(), pair.receiver.media().unwrap(), now);
        freezes(&frames, 0, u64::MAX);
    }

    /// Absurd extremes of the clock.
    #[test]
    fn late_clocks_are_survived(input in prop::collection::vec((any::<u64>(), packets()), 1..20)) {
        let (mut pair, _) = pair(AUDIO, 36e3, None, &settings(&[]));
        let mut times: Vec<u64> = input.iter().map(|i| i.0).collect();
        times.sort_unstable();
        pair.sender.on_start(*times.last().unwrap() - 1_000_000u64.min(times[0]));
        for (now, (_, (_, packet, report))) in times.into_iter().zip(input) {
            pair.receiver.on_packet(now, &packet);
            pair.receiver.on_timeout(now);
            pair.receiver.poll_transmit(now);
            pair.sender.on_feedback(now, &packet, &report);
            pair.sender.poll_transmit(now);
        }
        pair.sender.on_timeout(u64::MAX);
    }
}

/// Two probes of audio packets (90 bytes) and padding, one after the other: 1.8 Mbit/s for 15 ms are
/// 3 375 bytes, in packets of 2 ms, 450 bytes, each as long after the one before as that takes; then
/// 900 kbit/s, 1 687 bytes, with packets of 225. Padding is reported, but is no media.
#[test]
fn probes_are_filled_with_padding() {
    let probe = |cluster, rate: f64| Probe {
        cluster,
        rate,
        packets: 5,
        bytes: (rate * 0.015 / 8.0) as u64,
        packet_bytes: (rate * 0.002 / 8.0) as u64,
    };
    let probes = vec![probe(2, 900e3), probe(1, 1.8e6)];
    let (pair, log) = probing_pair(AUDIO, 36e3, None, &settings(&[]), probes);
    let mut run = Run::new(pair, Path::delay(10 * MILLISECOND));
    run.until(2 * SECOND);
    let log = log.lock().unwrap();
    for (cluster, rate, least) in [(1, 1.8e6, 3375), (2, 900e3, 1687)] {
        let sent: Vec<_> = log.probed.iter().filter(|probed| probed.0 == cluster).collect();
        assert!(sent.len() >= 5);
        let bytes: u32 = sent.iter().map(|probed| probed.2).sum();
        assert!((least..least + 450).contains(&bytes), "{bytes}");
        let last = sent[sent.len() - 1];
        let took = (last.1 - sent[0].1) as f64 / 1e9;
        let told = f64::from(bytes - last.2) * 8.0 / took;
        assert!((told / rate - 1.0).abs() < 1e-3, "{told}");
    }
    // Captured by 1.99 s: 100 frames.
    assert_eq!(run.pair.receiver.delivered_bytes(), 100 * 50);
    assert_eq!(run.pair.receiver.media().unwrap().completed.len(), 100);
    assert_eq!(log.lost, 0);
}

/// A driver that stands still for 20 ms in a probe ends it: no burst afterwards. Before, it has sent at
/// 0, 4 and 8 ms; after it, one packet would be due at once, and there is nothing but padding.
#[test]
fn a_late_probe_is_given_up() {
    let probe = Probe { cluster: 1, rate: 900e3, packets: 10, bytes: 4500, packet_bytes: 450 };
    let (mut pair, _) = probing_pair(AUDIO, 36e3, None, &settings(&[]), vec![probe]);
    pair.sender.on_start(0);
    let mut sent = Vec::new();
    for at in [0, 4, 8, 28, 32, 36] {
        let now = at * MILLISECOND;
        while let Some(packet) = pair.sender.poll_transmit(now) {
            sent.push((at, packet.ip_bytes));
        }
    }
    // The first is of media, 90 bytes, so that the next was due after 0.8 ms and then each 4 ms.
    assert_eq!(sent, [(0, 90), (4, 450), (8, 450)]);
}
