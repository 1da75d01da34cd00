//! Probing: short bursts at more than the current rate, and what their arrival tells of the path
//! (libwebrtc; the draft has none of it).

use std::collections::VecDeque;

use dumbbell_cc::Params;
use dumbbell_queue::Nanos;

use crate::rtp::control::{PacketResult, Probe};
use crate::rtp::controllers::Limits;

/// A result is waited for this long, and a cluster lasts no longer at either end.
const LONGEST: Nanos = 1_000_000_000;
/// A packet of a probe is as long as this takes at its rate.
const PACKET_TIME: f64 = 2e-3;
/// Share of a cluster's packets and bytes that must have arrived.
const LEAST_ARRIVED: f64 = 0.8;
/// Arriving so many times as fast as sent tells nothing.
const MOST_SPEED_UP: f64 = 2.0;
/// Arriving at less than this share of what was sent shows the path's capacity, of which
/// `TARGET_USE` is taken.
const UNSATURATED: f64 = 0.9;
const TARGET_USE: f64 = 0.95;

/// After a fall to less than this share of the rate, and back to normal within this time, a share of
/// the rate before is probed, unless the rate is within an uncertainty of it again.
const FALL: f64 = 0.66;
const FALL_TIME: Nanos = 5_000_000_000;
const AFTER_FALL: f64 = 0.85;
const UNCERTAINTY: f64 = 0.05;
/// Between two such probes.
const RECOVERY_INTERVAL: Nanos = 5_000_000_000;
/// Such falls are of a source that sends little, or has until this long ago.
const LIMITED_UNTIL: Nanos = 3_000_000_000;

/// Which probes are sent, and when.
#[derive(Clone, Debug)]
pub(super) struct ProbeControl {
    /// Factors of the start rate.
    first: [f64; 2],
    step: f64,
    threshold: f64,
    packets: u32,
    /// Seconds.
    length: f64,
    /// Probes while less is sent than could be; `None`: none.
    limited_interval: Option<Nanos>,
    most: f64,
    waiting: VecDeque<Probe>,
    next_cluster: u32,
    initiated: Nanos,
    /// Rate that a result must exceed for a further probe; `None`: no result is waited for.
    further_above: Option<f64>,
    enabled: bool,
    estimate: f64,
    /// When the estimate last fell by much, and from where.
    fall: Option<(Nanos, f64)>,
    recovery_probed: Nanos,
}

impl ProbeControl {
    pub(super) fn new(params: &Params, limits: Limits) -> Self {
        Self {
            first: [params.number("probe_first"), params.number("probe_second")],
            step: params.number("probe_step"),
            threshold: params.number("probe_threshold"),
            packets: params.count("probe_packets").min(u64::from(u32::MAX)) as u32,
            length: params.time("probe_time") as f64 / 1e9,
            limited_interval: params
                .flag("limited_probing")
                .then(|| params.time("limited_interval")),
            most: limits.most,
            waiting: VecDeque::new(),
            next_cluster: 0,
            initiated: 0,
            further_above: None,
            enabled: params.flag("probing"),
            estimate: 0.0,
            fall: None,
            recovery_probed: 0,
        }
    }

    pub(super) fn start(&mut self, now: Nanos, rate: f64) {
        self.estimate = rate;
        self.recovery_probed = now;
        if self.enabled {
            let [first, second] = self.first;
            self.initiate(now, &[first * rate, second * rate]);
        }
    }

    /// The estimate is now `rate`; `free`: neither delay nor loss holds it down.
    pub(super) fn on_estimate(&mut self, now: Nanos, rate: f64, free: bool) {
        if rate < FALL * self.estimate {
            self.fall = Some((now, self.estimate));
        }
        self.estimate = rate;
        if now.saturating_sub(self.initiated) > LONGEST {
            self.further_above = None;
        }
        if free && self.further_above.is_some_and(|above| rate > above) {
            self.initiate(now, &[self.step * rate]);
        }
    }

    /// Less has been sent than `rate` allows since then.
    pub(super) fn on_limited(&mut self, now: Nanos, since: Nanos, rate: f64, free: bool) {
        let due = self
            .limited_interval
            .is_some_and(|interval| now >= since.max(self.initiated).saturating_add(interval));
        if due && free && self.enabled {
            self.initiate(now, &[self.step * rate]);
        }
    }

    /// Delay is normal again after a queue has emptied.
    pub(super) fn on_recovery(&mut self, now: Nanos) {
        let Some((at, before)) = self.fall else { return };
        let wanted = AFTER_FALL * before;
        if self.enabled
            && self.further_above.is_none()
            && (1.0 - UNCERTAINTY) * wanted > self.estimate
            && now.saturating_sub(at) < FALL_TIME
            && now.saturating_sub(self.recovery_probed) > RECOVERY_INTERVAL
        {
            self.recovery_probed = now;
            self.initiate(now, &[wanted]);
            self.further_above = None;
        }
    }

    pub(super) fn take(&mut self) -> Option<Probe> {
        self.waiting.pop_front()
    }

    fn initiate(&mut self, now: Nanos, rates: &[f64]) {
        self.initiated = now;
        self.further_above = None;
        let mut last = 0.0;
        for &wanted in rates {
            let rate = wanted.min(self.most);
            // A factor of 0 asks for no probe, and one that is no faster than the last tells nothing.
            if rate <= last {
                continue;
            }
            last = rate;
            self.waiting.push_back(Probe {
                cluster: self.next_cluster,
                rate,
                packets: self.packets,
                bytes: (rate * self.length / 8.0) as u64,
                packet_bytes: (rate * PACKET_TIME / 8.0) as u64,
            });
            self.next_cluster = self.next_cluster.wrapping_add(1);
            self.further_above = (wanted < self.most).then_some(self.threshold * rate);
        }
    }
}

/// Packets of a cluster that have arrived.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    number: u32,
    packets: u32,
    bytes: u64,
    /// Time of sending and bytes of the last one sent; sending of the first.
    first_sent: Nanos,
    last_sent: (Nanos, u32),
    /// By the receiver's clock.
    first_arrival: (Nanos, u32),
    last_arrival: Nanos,
}

impl Cluster {
    fn of(number: u32, result: &PacketResult, arrival: Nanos) -> Self {
        Self {
            number,
            packets: 0,
            bytes: 0,
            first_sent: result.sent,
            last_sent: (result.sent, result.bytes),
            first_arrival: (arrival, result.bytes),
            last_arrival: arrival,
        }
    }

    fn add(&mut self, result: &PacketResult, arrival: Nanos) {
        self.packets += 1;
        self.bytes += u64::from(result.bytes);
        if result.sent < self.first_sent {
            self.first_sent = result.sent;
        }
        if result.sent > self.last_sent.0 {
            self.last_sent = (result.sent, result.bytes);
        }
        if after(arrival, self.first_arrival.0) > 0 {
            self.first_arrival = (arrival, result.bytes);
        }
        if after(self.last_arrival, arrival) > 0 {
            self.last_arrival = arrival;
        }
    }

    /// Bits per second: the time from the first to the last packet leaves out the bytes of one.
    fn rates(&self) -> Option<(f64, f64)> {
        let rate = |without: u32, time: i64| {
            let bytes = self.bytes.saturating_sub(u64::from(without));
            (time > 0 && time <= LONGEST as i64).then(|| bytes as f64 * 8e9 / time as f64)
        };
        let sent = rate(self.last_sent.1, after(self.first_sent, self.last_sent.0))?;
        let received = rate(self.first_arrival.1, after(self.first_arrival.0, self.last_arrival))?;
        Some((sent, received))
    }
}

fn after(from: Nanos, to: Nanos) -> i64 {
    to.wrapping_sub(from) as i64
}

/// What the arrival of a cluster tells.
#[derive(Clone, Debug)]
pub(super) struct ProbeEstimator {
    packets: u32,
    cluster: Option<Cluster>,
}

impl ProbeEstimator {
    pub(super) fn new(params: &Params) -> Self {
        Self {
            packets: params.count("probe_packets").min(u64::from(u32::MAX)) as u32,
            cluster: None,
        }
    }

    /// A packet of a cluster of at least so many bytes; bits per second that the path bears, as
    /// soon as enough of the cluster has arrived.
    pub(super) fn add(&mut self, number: u32, least: u64, result: &PacketResult) -> Option<f64> {
        let arrival = result.arrival?;
        let cluster = match &mut self.cluster {
            Some(cluster) if cluster.number == number => cluster,
            other => other.insert(Cluster::of(number, result, arrival)),
        };
        cluster.add(result, arrival);
        if f64::from(cluster.packets) < (LEAST_ARRIVED * f64::from(self.packets)).floor()
            || (cluster.bytes as f64) < LEAST_ARRIVED * least as f64
        {
            return None;
        }
        let (sent, received) = cluster.rates()?;
        if sent <= 0.0 || received > MOST_SPEED_UP * sent {
            None
        } else if received < UNSATURATED * sent {
            Some(TARGET_USE * received)
        } else {
            Some(sent.min(received))
        }
    }
}

/// Whether less is sent than might be: a budget of half a second that fills at part of the rate.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    /// Bytes left of the budget.
    left: f64,
    updated: Option<Nanos>,
    since: Option<Nanos>,
    ended: Option<Nanos>,
}

impl Limited {
    /// Share of the rate that the budget fills at.
    const USE: f64 = 0.65;
    const WINDOW: f64 = 0.5;
    const BEGINS: f64 = 0.8;
    const ENDS: f64 = 0.5;

    pub(super) fn new() -> Self {
        Self { left: 0.0, updated: None, since: None, ended: None }
    }

    pub(super) fn since(&self) -> Option<Nanos> {
        self.since
    }

    /// It is so, or has been until lately.
    pub(super) fn is_recent(&self, now: Nanos) -> bool {
        let lately = |at| now.saturating_sub(at) < LIMITED_UNTIL;
        self.since.is_some() || self.ended.is_some_and(lately)
    }

    pub(super) fn sent(&mut self, now: Nanos, bytes: u32, rate: f64) {
        let filled = Self::USE * rate / 8.0;
        let most = Self::WINDOW * filled;
        let elapsed = now.saturating_sub(*self.updated.get_or_insert(now)) as f64 / 1e9;
        self.updated = Some(now);
        self.left = (self.left - f64::from(bytes)).max(-most);
        self.left = (self.left + elapsed * filled).min(most);
        if self.left > Self::BEGINS * most {
            self.since.get_or_insert(now);
        } else if self.left < Self::ENDS * most && self.since.take().is_some() {
            self.ended = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use dumbbell_queue::Ecn;
    use serde_json::{Value, json};

    use super::*;

    const MS: Nanos = 1_000_000;
    const SECOND: Nanos = 1_000 * MS;

    fn params(given: Value) -> Params {
        Params::check("gcc", &super::super::info().params, given.as_object().unwrap()).unwrap()
    }

    fn control(given: Value) -> ProbeControl {
        let params = params(given);
        let limits = Limits::new(&params);
        let mut control = ProbeControl::new(&params, limits);
        control.start(0, params.number("start_rate"));
        control
    }

    fn rates(control: &mut ProbeControl) -> Vec<f64> {
        std::iter::from_fn(|| control.take()).map(|probe| probe.rate).collect()
    }

    /// libwebrtc: 3 and 6 times 300 kbit/s; at 1.8 Mbit/s 15 ms are 3 375 bytes, a packet of 2 ms has
    /// 450, and there are five at least.
    #[test]
    fn the_first_probes_are_at_three_and_six_times_the_start_rate() {
        let mut control = control(json!({"max_rate": 5e6}));
        let first = control.take().unwrap();
        assert_eq!((first.rate, first.packets, first.bytes), (900e3, 5, 1687));
        let second = control.take().unwrap();
        assert_eq!((second.rate, second.bytes, second.packet_bytes), (1.8e6, 3375, 450));
        assert!(first.cluster != second.cluster && control.take().is_none());
    }

    /// libwebrtc's test of exponential probing: after 1.8 Mbit/s, 1 Mbit/s lies below the threshold of
    /// 0.7 (1.8) = 1.26 Mbit/s, and an estimate of 1.8 Mbit/s brings a probe of twice that.
    #[test]
    fn a_good_result_brings_a_further_probe() {
        let mut control = control(json!({"max_rate": 5e6}));
        assert_eq!(rates(&mut control).len(), 2);
        control.on_estimate(100 * MS, 1e6, true);
        control.on_estimate(150 * MS, 1.8e6, false);
        assert!(rates(&mut control).is_empty());
        control.on_estimate(200 * MS, 1.8e6, true);
        assert_eq!(rates(&mut control), [3.6e6]);
        // Up to the greatest rate, and then no more.
        control.on_estimate(300 * MS, 3e6, true);
        assert_eq!(rates(&mut control), [5e6]);
        control.on_estimate(400 * MS, 5e6, true);
        assert!(rates(&mut control).is_empty());
    }

    /// libwebrtc waits for a result for a second.
    #[test]
    fn a_late_result_brings_none() {
        for (now, further) in [(SECOND, vec![3.6e6]), (SECOND + 1, vec![])] {
            let mut control = control(json!({"max_rate": 5e6}));
            rates(&mut control);
            control.on_estimate(now, 1.8e6, true);
            assert_eq!(rates(&mut control), further);
        }
    }

    #[test]
    fn probes_stay_below_the_greatest_rate() {
        assert_eq!(rates(&mut control(json!({}))), [900e3, 1.5e6]);
        assert_eq!(rates(&mut control(json!({"start_rate": 600e3}))), [1.5e6]);
        assert_eq!(rates(&mut control(json!({"probe_second": 0}))), [900e3]);
        assert!(rates(&mut control(json!({"probing": false}))).is_empty());
    }

    /// libwebrtc: a fall from 1 Mbit/s to less than 660 kbit/s, and normal again within 5 s: a probe at 850
    /// kbit/s, if the rate is below 0.95 of that, 5 s after the start or the last such probe.
    #[test]
    fn a_fall_is_probed_once_it_is_over() {
        let probed = |rate: f64, fell: Nanos, over: Nanos| {
            let mut control = control(json!({}));
            rates(&mut control);
            control.on_estimate(2 * SECOND, 1e6, true);
            control.on_estimate(fell, rate, true);
            control.on_recovery(over);
            rates(&mut control)
        };
        assert_eq!(probed(650e3, 6 * SECOND, 7 * SECOND), [850e3]);
        assert!(probed(670e3, 6 * SECOND, 7 * SECOND).is_empty());
        assert!(probed(650e3, 6 * SECOND, 11 * SECOND).is_empty());
        assert!(probed(650e3, 4 * SECOND, 5 * SECOND).is_empty());

        let mut control = control(json!({}));
        control.on_estimate(2 * SECOND, 1e6, true);
        control.on_estimate(6 * SECOND, 500e3, true);
        control.on_estimate(7 * SECOND, 800e3, true);
        control.on_estimate(7 * SECOND, 810e3, true);
        rates(&mut control);
        control.on_recovery(7 * SECOND);
        assert!(rates(&mut control).is_empty());
    }

    /// Packets of 1 000 bytes sent and received at these times in ms, of a cluster of five packets.
    fn estimate(times: &[(u64, u64)]) -> Option<f64> {
        let mut estimator = ProbeEstimator::new(&params(json!({})));
        let mut last = None;
        for (seq, &(sent, arrival)) in times.iter().enumerate() {
            let result = PacketResult {
                seq: seq as u64,
                sent: sent * MS,
                bytes: 1000,
                arrival: Some(arrival * MS),
                ecn: Ecn::NotEct,
                probe: None,
            };
            last = estimator.add(1, 5000, &result);
        }
        last
    }

    /// By hand, as in libwebrtc's tests of its estimator: 3 000 bytes in 30 ms are 800 kbit/s at both
    /// ends. Received in 75 ms: 320 kbit/s, less than 0.9 of 800, of which 0.95. Received in 25 ms:
    /// 960 kbit/s, so that 800 count. Received in 9 ms is more than twice as fast and no result.
    #[test]
    fn the_lesser_of_both_rates_counts() {
        let close = |told: Option<f64>, rate: f64| (told.unwrap() / rate - 1.0).abs() < 1e-9;
        assert!(close(estimate(&[(0, 10), (10, 20), (20, 30), (30, 40)]), 800e3));
        assert!(close(estimate(&[(0, 10), (10, 40), (20, 70), (30, 85)]), 0.95 * 320e3));
        assert!(close(estimate(&[(0, 15), (10, 30), (20, 35), (30, 40)]), 800e3));
        assert_eq!(estimate(&[(0, 19), (10, 22), (20, 25), (30, 28)]), None);
    }

    /// Four fifths of five packets are four; a burst that takes more than a second tells nothing.
    #[test]
    fn too_little_or_too_late_is_no_result() {
        assert_eq!(estimate(&[(0, 10), (10, 20), (20, 30)]), None);
        assert_eq!(estimate(&[(0, 10), (10, 20), (20, 30), (30, 1011)]), None);
        assert_eq!(estimate(&[(0, 10), (0, 20), (0, 30), (0, 40)]), None);
        // The offset of the receiver's clock does not matter.
        let ahead = 1_000_000_000;
        let told = estimate(&[0, 10, 20, 30].map(|at| (at, at + ahead)));
        assert!((told.unwrap() / 800e3 - 1.0).abs() < 1e-9);
    }

    /// A budget that fills at 0.65 of 1 Mbit/s holds half a second of it. Sending nothing fills 80 % of
    /// it in 400 ms; sending at 1 Mbit/s takes 0.35 in 0.65 of it a second: from the brim it is half
    /// empty after 464 ms. A probe follows 5 s after the beginning, at twice the rate.
    #[test]
    fn little_sent_is_noticed_and_probed() {
        let mut limited = Limited::new();
        limited.sent(0, 0, 1e6);
        limited.sent(399 * MS, 0, 1e6);
        assert_eq!(limited.since(), None);
        limited.sent(401 * MS, 0, 1e6);
        assert_eq!(limited.since(), Some(401 * MS));
        limited.sent(SECOND, 0, 1e6);
        let ends = (1..1000)
            .find(|ms| {
                limited.sent(SECOND + ms * MS, 125, 1e6);
                limited.since().is_none()
            })
            .unwrap();
        assert!((463..=466).contains(&ends), "{ends}");
        let ended = SECOND + ends * MS;
        assert!(limited.is_recent(ended + 2999 * MS) && !limited.is_recent(ended + 3 * SECOND));

        for (given, expected) in [(true, vec![1e6]), (false, vec![])] {
            let mut control = control(json!({"limited_probing": given}));
            rates(&mut control);
            control.on_limited(SECOND * 59 / 10, SECOND, 500e3, true);
            control.on_limited(6 * SECOND, SECOND, 500e3, false);
            assert!(rates(&mut control).is_empty());
            control.on_limited(6 * SECOND, SECOND, 500e3, true);
            assert_eq!(rates(&mut control), expected);
            control.on_limited(10 * SECOND, SECOND, 500e3, true);
            assert!(rates(&mut control).is_empty());
        }
    }
}
