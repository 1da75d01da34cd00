//! Shared bottleneck detection (RFC 8382): flows whose one-way delays are shaped alike are taken to
//! queue at the same place.
//!
//! Only differences of delays count, so the clocks of sender and receiver need not agree; one way's
//! clock offset moves its mean and nothing else. Whoever drives it hands over each delay and loss, and
//! calls [`SharedBottleneck::end_interval`] every [`SbdOptions::interval`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dumbbell_cc::{ParamInfo, Params};
use dumbbell_queue::Nanos;
use serde::Serialize;

/// What is known of the detector before it is built.
#[derive(Clone, Debug, Serialize)]
pub struct DetectorInfo {
    pub name: &'static str,
    pub summary: &'static str,
    pub source: &'static str,
    pub options: Vec<ParamInfo>,
}

pub fn info() -> DetectorInfo {
    DetectorInfo {
        name: "sbd",
        summary: "groups flows whose one-way delays are shaped alike (groups = \"sbd\")",
        source: "RFC 8382",
        options: options(),
    }
}

/// The options with the RFC's values (sections 2.2, 3.2 and 3.3).
pub fn options() -> Vec<ParamInfo> {
    let fraction =
        |name, default: f64, doc| ParamInfo::new(name, "number", default, (0.0, 1.0), doc);
    let count = |name, default: u64, doc| ParamInfo::new(name, "count", default, (1.0, 1e4), doc);
    vec![
        ParamInfo::new(
            "interval",
            "time",
            350_000_000_u64,
            (1e6, 6e10),
            "T: over which a base statistic is taken",
        ),
        count("n", 50, "N: intervals that frequency and loss are taken over"),
        count(
            "m",
            30,
            "M: intervals that mean, skewness and variability are taken over; at most n",
        ),
        count(
            "f",
            20,
            "F: newest intervals that have full weight in skewness and variability, the older of m have \
             less, linearly; m for equal weights",
        ),
        ParamInfo::new(
            "c_s",
            "number",
            0.1,
            (-1.0, 1.0),
            "A flow whose skewness is below has a bottleneck",
        ),
        ParamInfo::new(
            "c_h",
            "number",
            0.3,
            (-1.0, 1.0),
            "A flow that had one keeps it while its skewness is below this",
        ),
        fraction("p_f", 0.1, "Least difference in frequency that tells groups apart"),
        fraction("p_mad", 0.1, "Least relative difference in variability that does"),
        fraction("p_s", 0.15, "Least difference in skewness that does"),
        fraction("p_d", 0.1, "Least relative difference in loss that does, where loss counts"),
        fraction(
            "p_v",
            0.7,
            "Part of the variability by which a mean must cross the long-term one",
        ),
        fraction(
            "p_l",
            0.05,
            "Loss above which a flow has a bottleneck, and loss tells groups apart",
        ),
        ParamInfo::choice(
            "loss",
            &["instead", "besides"],
            "instead",
            "Loss above p_l tells groups apart in place of skewness (Hayes, Ferlin, Welzl 2014 and the \
             authors' MPTCP), or after it",
        ),
        ParamInfo::flag(
            "mask",
            false,
            "Intervals in which a flow had no bottleneck count neither in its variability nor for \
             crossings, which are noise then (the authors' MPTCP: off)",
        ),
        count(
            "confirmations",
            1,
            "Intervals in a row that must find the same groups before these are changed",
        ),
    ]
}

#[derive(Clone, Copy, Debug)]
pub struct SbdOptions {
    pub interval: Nanos,
    pub n: usize,
    pub m: usize,
    pub f: usize,
    pub c_s: f64,
    pub c_h: f64,
    pub p_f: f64,
    pub p_mad: f64,
    pub p_s: f64,
    pub p_d: f64,
    pub p_v: f64,
    pub p_l: f64,
    /// High loss parts flows in place of skewness, not after it.
    pub loss_instead: bool,
    /// Only intervals with a bottleneck count for variability and frequency.
    pub mask: bool,
    pub confirmations: u64,
}

impl SbdOptions {
    /// From the checked [`options`].
    pub fn new(params: &Params) -> Self {
        let n = params.count("n") as usize;
        let m = n.min(params.count("m") as usize);
        Self {
            interval: params.time("interval"),
            n,
            m,
            f: m.min(params.count("f") as usize),
            c_s: params.number("c_s"),
            c_h: params.number("c_h"),
            p_f: params.number("p_f"),
            p_mad: params.number("p_mad"),
            p_s: params.number("p_s"),
            p_d: params.number("p_d"),
            p_v: params.number("p_v"),
            p_l: params.number("p_l"),
            loss_instead: params.choice("loss") == "instead",
            mask: params.flag("mask"),
            confirmations: params.count("confirmations"),
        }
    }
}

/// What is known of a flow's delays (RFC 8382 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Long-term mean of the one-way delay, nanoseconds by the clocks of both ends.
    pub mean: f64,
    /// From -1 to 1; the smaller, the fuller a queue.
    pub skewness: f64,
    /// Mean absolute deviation, nanoseconds.
    pub variability: f64,
    /// Significant crossings of the long-term mean in an interval.
    pub frequency: f64,
    /// Fraction of packets.
    pub loss: f64,
    /// Some bottleneck holds the flow up.
    pub bottleneck: bool,
}

/// Sums over one interval. Delays are relative to the flow's first.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    delays: f64,
    samples: u64,
    lost: u64,
    /// Samples that the two sums below are of: none before there is a mean to compare with.
    compared: u64,
    /// Samples below the long-term mean less those above.
    below: i64,
    /// Sum of absolute deviations from the mean of the interval before.
    deviation: f64,
    /// Its end found a bottleneck.
    bottleneck: bool,
}

impl Interval {
    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.delays / self.samples as f64)
    }
}

/// The statistics of one flow.
#[derive(Clone, Debug, Default)]
struct Statistics {
    /// Nanoseconds; what delays are counted from, so that clock offsets cost no digits.
    first: Option<i64>,
    current: Interval,
    /// The newest first.
    past: VecDeque<Interval>,
    /// Means of the last interval that had samples, and over the last M.
    last_mean: Option<f64>,
    long_mean: Option<f64>,
    estimate: Estimate,
}

impl Statistics {
    fn on_delay(&mut self, delay: i64) {
        let first = *self.first.get_or_insert(delay);
        let delay = delay.wrapping_sub(first) as f64;
        let current = &mut self.current;
        current.delays += delay;
        current.samples += 1;
        if let (Some(last), Some(long)) = (self.last_mean, self.long_mean) {
            current.compared += 1;
            current.below += i64::from(delay < long) - i64::from(delay > long);
            current.deviation += (delay - last).abs();
        }
    }

    fn end_interval(&mut self, options: &SbdOptions) {
        let current = std::mem::take(&mut self.current);
        self.last_mean = current.mean().or(self.last_mean);
        self.past.push_front(current);
        self.past.truncate(options.n);
        let (mut sum, mut count) = (0.0, 0.0);
        for mean in self.past.iter().take(options.m).filter_map(Interval::mean) {
            sum += mean;
            count += 1.0;
        }
        self.long_mean = (count > 0.0).then(|| sum / count);

        let skewness = self.average(options, false, |interval| interval.below as f64);
        let variability = self.average(options, false, |interval| interval.deviation);
        let lost: u64 = self.past.iter().map(|interval| interval.lost).sum();
        let sent = lost + self.past.iter().map(|interval| interval.samples).sum::<u64>();
        let loss = if sent > 0 { lost as f64 / sent as f64 } else { 0.0 };
        // A delay that never varies is no queue's, though its skewness is that of a full one.
        let skewed = |skewness: f64| {
            skewness < options.c_s || (skewness < options.c_h && self.estimate.bottleneck)
        };
        let skewed = skewness.is_some_and(skewed) && variability.is_some_and(|mad| mad > 0.0);
        let bottleneck = skewness.is_some() && (skewed || loss > options.p_l);
        self.past[0].bottleneck = bottleneck;
        let variability = if options.mask {
            self.average(options, true, |interval| interval.deviation)
        } else {
            variability
        }
        .unwrap_or(0.0);
        let mean = self.long_mean.unwrap_or(0.0);
        self.estimate = Estimate {
            mean: self.first.unwrap_or(0) as f64 + mean,
            skewness: skewness.unwrap_or(0.0),
            variability,
            frequency: self.frequency(mean, options.p_v * variability, options.mask),
            loss,
            bottleneck,
        };
    }

    /// A sum over samples of the last M intervals for each of them, the older intervals with less weight;
    /// `bottleneck`: of those alone that had one. `None` without samples.
    fn average(
        &self,
        options: &SbdOptions,
        bottleneck: bool,
        sum: impl Fn(&Interval) -> f64,
    ) -> Option<f64> {
        let (mut count, mut total) = (0.0, 0.0);
        for (age, interval) in self.past.iter().take(options.m).enumerate() {
            if interval.bottleneck || !bottleneck {
                let weight = (options.m - options.f + 1).min(options.m - age) as f64;
                count += weight * interval.compared as f64;
                total += weight * sum(interval);
            }
        }
        (count > 0.0).then(|| total / count)
    }

    /// How often the means of intervals have gone from one side of the long-term mean to the other, by
    /// more than `margin` each, of the intervals with samples. With `mask` what happens in an interval
    /// without a bottleneck is not counted.
    fn frequency(&self, mean: f64, margin: f64, mask: bool) -> f64 {
        let (mut crossings, mut intervals) = (0_usize, 0_usize);
        let mut side = None;
        for past in self.past.iter().rev() {
            let Some(interval) = past.mean() else { continue };
            intervals += 1;
            if (interval - mean).abs() > margin {
                let above = interval > mean;
                let crossed = side.is_some_and(|side| side != above);
                crossings += usize::from(crossed && (past.bottleneck || !mask));
                side = Some(above);
            }
        }
        crossings as f64 / intervals.max(1) as f64
    }
}

/// The groups of some flows. A group keeps its number while it keeps members.
#[derive(Clone, Debug)]
pub struct SharedBottleneck {
    options: SbdOptions,
    flows: Vec<Statistics>,
    groups: Vec<Option<u32>>,
    /// Other groups that were found last, and how often in a row.
    candidate: (Vec<Option<u32>>, u64),
}

impl SharedBottleneck {
    pub fn new(options: SbdOptions, flows: usize) -> Self {
        Self {
            options,
            flows: vec![Statistics::default(); flows],
            groups: vec![None; flows],
            candidate: (Vec::new(), 0),
        }
    }

    pub fn options(&self) -> &SbdOptions {
        &self.options
    }

    /// A packet of this flow has arrived: its one-way delay, nanoseconds by any two clocks.
    pub fn on_delay(&mut self, flow: usize, delay: i64) {
        self.flows[flow].on_delay(delay);
    }

    /// Packets of this flow were found lost.
    pub fn on_loss(&mut self, flow: usize, packets: u64) {
        let lost = &mut self.flows[flow].current.lost;
        *lost = lost.saturating_add(packets.min(u64::from(u32::MAX)));
    }

    /// Forget a flow's past: it takes another path, or has been silent.
    pub fn reset(&mut self, flow: usize) {
        self.flows[flow] = Statistics::default();
    }

    /// An interval is over: the groups from now on.
    pub fn end_interval(&mut self) -> &[Option<u32>] {
        for flow in &mut self.flows {
            flow.end_interval(&self.options);
        }
        let estimates: Vec<Estimate> = self.flows.iter().map(|flow| flow.estimate).collect();
        let found = group(&self.options, &estimates);
        let seen = if found == self.candidate.0 { self.candidate.1 + 1 } else { 1 };
        if seen >= self.options.confirmations {
            self.groups = renumber(&self.groups, &found);
        }
        self.candidate = (found, seen);
        &self.groups
    }

    /// The group of a flow: flows of one group share a bottleneck; none: the flow has no bottleneck.
    pub fn group(&self, flow: usize) -> Option<u32> {
        self.groups[flow]
    }

    pub fn estimate(&self, flow: usize) -> &Estimate {
        &self.flows[flow].estimate
    }
}

/// The groups of flows with these statistics (RFC 8382 section 3.3), numbered in the order of their
/// first members; none for a flow without a bottleneck.
pub fn group(options: &SbdOptions, estimates: &[Estimate]) -> Vec<Option<u32>> {
    let held_up = (0..estimates.len()).filter(|&flow| estimates[flow].bottleneck).collect();
    let value = |flow: usize, of: fn(&Estimate) -> f64| of(&estimates[flow]);
    let relative = |limit: f64| move |high: f64, low: f64| high - low < limit * high || high == low;
    let absolute = |limit: f64| move |high: f64, low: f64| high - low < limit;
    let mut groups = Vec::new();
    for part in split(held_up, |flow| value(flow, |e| e.frequency), absolute(options.p_f)) {
        for part in split(part, |flow| value(flow, |e| e.variability), relative(options.p_mad)) {
            let lossy =
                |part: &[usize]| part.iter().any(|&flow| estimates[flow].loss > options.p_l);
            let parts = if options.loss_instead && lossy(&part) {
                vec![part]
            } else {
                split(part, |flow| value(flow, |e| e.skewness), absolute(options.p_s))
            };
            for part in parts {
                if lossy(&part) {
                    let alike = relative(options.p_d);
                    groups.extend(split(part, |flow| value(flow, |e| e.loss), alike));
                } else {
                    groups.push(part);
                }
            }
        }
    }
    groups.sort_by_key(|group| group.iter().min().copied());
    let mut numbers = vec![None; estimates.len()];
    for (number, group) in (0..).zip(groups) {
        for flow in group {
            numbers[flow] = Some(number);
        }
    }
    numbers
}

/// Give groups the numbers that they had `before`, the best match first, and new groups the lowest that
/// are left.
fn renumber(before: &[Option<u32>], found: &[Option<u32>]) -> Vec<Option<u32>> {
    let mut common: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for (&before, &found) in before.iter().zip(found) {
        if let (Some(before), Some(found)) = (before, found) {
            *common.entry((before, found)).or_default() += 1;
        }
    }
    let mut matches: Vec<_> = common.into_iter().collect();
    matches.sort_by_key(|&(_, count)| Reverse(count));
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for ((before, found), _) in matches {
        if !taken.contains(&before) && !numbers.contains_key(&found) {
            numbers.insert(found, before);
            taken.insert(before);
        }
    }
    let mut number = |found: u32| {
        *numbers.entry(found).or_insert_with(|| {
            let free = (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
            taken.insert(free);
            free
        })
    };
    found.iter().map(|found| found.map(&mut number)).collect()
}

/// Sort flows by a value, the largest first, and part them where neighbours are not alike.
fn split(
    mut flows: Vec<usize>,
    value: impl Fn(usize) -> f64,
    alike: impl Fn(f64, f64) -> bool,
) -> Vec<Vec<usize>> {
    flows.sort_by(|&a, &b| value(b).total_cmp(&value(a)));
    let parts = flows.chunk_by(|&high, &low| alike(value(high), value(low)));
    parts.map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    fn defaults() -> SbdOptions {
        SbdOptions::new(&Params::check("sbd", &options(), &Map::new()).unwrap())
    }

    /// One flow, three intervals long, with equal weights.
    fn short() -> SbdOptions {
        SbdOptions { n: 4, m: 3, f: 3, ..defaults() }
    }

    fn run(options: SbdOptions, intervals: &[&[i64]]) -> SharedBottleneck {
        let mut sbd = SharedBottleneck::new(options, 1);
        for delays in intervals {
            for &delay in *delays {
                sbd.on_delay(0, delay);
            }
            sbd.end_interval();
        }
        sbd
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} for {expected}");
    }

    #[test]
    fn defaults_are_those_of_the_rfc() {
        let o = defaults();
        assert_eq!((o.interval, o.n, o.m, o.f), (350_000_000, 50, 30, 20));
        let thresholds = [o.c_s, o.c_h, o.p_f, o.p_mad, o.p_s, o.p_d, o.p_v, o.p_l];
        assert_eq!(thresholds, [0.1, 0.3, 0.1, 0.1, 0.15, 0.1, 0.7, 0.05]);
    }

    /// By hand. Means 10, 20, 12. Second interval, long-term mean 10: of 16, 18, 20, 26 none is below
    /// and four above, deviations from 10 are 6 + 8 + 10 + 16 = 40. Third, long-term mean 15: 10, 11, 13
    /// are below, 14 too, deviations from 20 are 10 + 9 + 7 + 6 = 32.
    #[test]
    fn statistics_by_hand() {
        let second: &[i64] = &[16, 18, 20, 26];
        let sbd = run(short(), &[&[10, 10], second]);
        let estimate = sbd.estimate(0);
        assert_near(estimate.mean, 15.0);
        assert_near(estimate.skewness, -1.0);
        assert_near(estimate.variability, 10.0);

        let sbd = run(short(), &[&[10, 10], second, &[10, 11, 13, 14]]);
        let estimate = sbd.estimate(0);
        assert_near(estimate.mean, 14.0);
        assert_near(estimate.skewness, 0.0);
        assert_near(estimate.variability, 72.0 / 8.0);
    }

    /// Weights with M = 4 and F = 2 are 3, 3, 2, 1: as the RFC's section 4 has it, (M-F+1) for the F
    /// newest, then declining to 1. All samples of an interval lie on one side of the mean so far.
    #[test]
    fn older_intervals_weigh_less() {
        let options = SbdOptions { n: 4, m: 4, f: 2, ..defaults() };
        // Long-term means before: -, 0, 10, 10, 15 (of 0, 20, 10, 30), then the first drops out.
        let sbd = run(options, &[&[0], &[20], &[10], &[30], &[14, 14]]);
        let estimate = sbd.estimate(0);
        // Ages 0 to 3: two below, one above, one equal, one above.
        assert_near(estimate.skewness, (3.0 * 2.0 - 3.0 - 1.0) / (3.0 * 2.0 + 3.0 + 2.0 + 1.0));
        // Deviations from the mean before: 2 x 16, 20, 10, 20.
        let deviation = 3.0 * 32.0 + 3.0 * 20.0 + 2.0 * 10.0 + 20.0;
        assert_near(estimate.variability, deviation / 12.0);
    }

    /// Means 0, 40, 0, 20, 40 around 20 with no margin: sides -, +, -, none, +: three crossings in five
    /// intervals. With the deviations here (40, 40, 20, 20 in four samples: 30) and p_v = 0.7 the margin
    /// is 21, and none counts.
    #[test]
    fn crossings_must_be_significant() {
        let means: [&[i64]; 5] = [&[0], &[40], &[0], &[20], &[40]];
        let equal = SbdOptions { n: 5, m: 5, f: 5, ..defaults() };
        assert_near(run(SbdOptions { p_v: 0.0, ..equal }, &means).estimate(0).frequency, 0.6);
        assert_near(run(equal, &means).estimate(0).frequency, 0.0);
    }

    /// Two crossings in the three intervals since the flow began to send, whatever had passed before. The
    /// long-term mean is 80 / 3 (M = 4 reaches over all of them).
    #[test]
    fn silence_is_no_part_of_frequency() {
        let options = SbdOptions { n: 50, m: 4, f: 4, p_v: 0.0, ..defaults() };
        let silent: [&[i64]; 3] = [&[]; 3];
        let sent: [&[i64]; 3] = [&[40], &[0], &[40]];
        let sbd = run(options, &[silent.as_slice(), sent.as_slice()].concat());
        assert_near(sbd.estimate(0).frequency, 2.0 / 3.0);
    }

    /// By hand, M = 1 for skewness, so that each interval is judged by itself: after a first one of 0, two
    /// that are above the mean before have a bottleneck (skewness -1), one that is below has none (+1),
    /// then again one above. Means 0, 10, 30, 0, 20: around the last one of 20 crossings are up in the third
    /// interval and down in the fourth. Masked, that of the fourth is not counted.
    #[test]
    fn masked_intervals_count_for_nothing() {
        let means: [&[i64]; 5] = [&[0], &[10], &[30], &[0], &[20]];
        for (mask, crossings) in [(false, 2.0), (true, 1.0)] {
            let options = SbdOptions { n: 5, m: 1, f: 1, p_v: 0.0, c_h: 0.1, mask, ..defaults() };
            let sbd = run(options, &means);
            assert_near(sbd.estimate(0).frequency, crossings / 5.0);
        }
        // Deviations from the mean before are 10, 20 and 30 in the last three of four intervals; the last
        // is below the long-term mean of 40 / 3 and would be without a bottleneck by itself, but with M = 4
        // skewness is (-1 - 1 + 1) / 3.
        let all: [&[i64]; 4] = [&[0], &[10], &[30], &[0]];
        for (c_s, variability) in [(0.1, 20.0), (-0.5, 15.0)] {
            let options = SbdOptions { n: 4, m: 4, f: 4, c_s, c_h: c_s, mask: true, ..defaults() };
            let sbd = run(options, &all);
            assert_near(sbd.estimate(0).variability, variability);
            assert_eq!(sbd.estimate(0).bottleneck, c_s > 0.0);
        }
    }

    #[test]
    fn losses_count_over_the_longest_window() {
        let mut sbd = SharedBottleneck::new(short(), 1);
        for lost in [4, 0, 1, 0, 0] {
            sbd.on_delay(0, 5);
            sbd.on_delay(0, 5);
            sbd.on_loss(0, lost);
            sbd.end_interval();
        }
        // Four intervals of two packets each, and the loss of one.
        assert_near(sbd.estimate(0).loss, 1.0 / 9.0);
        assert!(sbd.estimate(0).bottleneck);
    }

    /// Skewness 0.2 is no bottleneck at first, but where there was one, it is (c_s 0.1, c_h 0.3).
    #[test]
    fn a_bottleneck_stays_for_a_while() {
        // Long-term mean 0 before; of ten samples six are below and four above, mean 0.
        let mild: &[i64] = &[-2, -2, -2, -2, -2, -2, 3, 3, 3, 3];
        let full: &[i64] = &[-3, -3, -3, -3, 2, 2, 2, 2, 2, 2];
        let one = SbdOptions { n: 1, m: 1, f: 1, ..defaults() };
        let sbd = run(one, &[&[0], mild]);
        assert_near(sbd.estimate(0).skewness, 0.2);
        assert!(!sbd.estimate(0).bottleneck && sbd.group(0).is_none());
        let sbd = run(one, &[&[0], full, mild]);
        assert_near(sbd.estimate(0).skewness, 0.2);
        assert!(sbd.estimate(0).bottleneck && sbd.group(0) == Some(0));
    }

    fn estimate(frequency: f64, variability: f64, skewness: f64, loss: f64) -> Estimate {
        Estimate { mean: 0.0, skewness, variability, frequency, loss, bottleneck: true }
    }

    #[test]
    fn groups_are_parted_by_one_statistic_after_the_other() {
        let base = estimate(0.2, 10e6, 0.0, 0.0);
        let cases = [
            ("alike", base, true),
            ("frequency", estimate(0.31, 10e6, 0.0, 0.0), false),
            ("frequency, a little", estimate(0.29, 10e6, 0.0, 0.0), true),
            ("variability", estimate(0.2, 11.2e6, 0.0, 0.0), false),
            // 1 of 11 is less than a tenth of the larger.
            ("variability, a little", estimate(0.2, 11e6, 0.0, 0.0), true),
            ("skewness", estimate(0.2, 10e6, -0.2, 0.0), false),
            ("skewness, a little", estimate(0.2, 10e6, -0.1, 0.0), true),
            ("loss below p_l", estimate(0.2, 10e6, 0.0, 0.04), true),
        ];
        for (name, other, together) in cases {
            let groups = group(&defaults(), &[base, other]);
            assert_eq!(groups, [Some(0), Some(u32::from(!together))], "{name}");
        }
    }

    #[test]
    fn loss_takes_the_place_of_skewness_where_it_is_high() {
        let base = estimate(0.2, 10e6, -0.3, 0.10);
        let alike = estimate(0.2, 10e6, 0.3, 0.095);
        let other = estimate(0.2, 10e6, -0.3, 0.08);
        assert_eq!(group(&defaults(), &[base, other, alike]), [Some(0), Some(1), Some(0)]);
        let besides = SbdOptions { loss_instead: false, ..defaults() };
        assert_eq!(group(&besides, &[base, other, alike]), [Some(0), Some(1), Some(2)]);
        let both = estimate(0.2, 10e6, -0.25, 0.095);
        assert_eq!(group(&besides, &[base, other, both]), [Some(0), Some(1), Some(0)]);
    }

    /// Neighbours in a chain stay together even where the ends differ; flows without a bottleneck are in
    /// no group.
    #[test]
    fn neighbours_decide() {
        let mut flows: Vec<Estimate> =
            [0.0, 0.3, 0.1, 0.2].iter().map(|&skew| estimate(0.2, 10e6, skew, 0.0)).collect();
        assert_eq!(group(&defaults(), &flows), [Some(0); 4]);
        flows[2].bottleneck = false;
        assert_eq!(group(&defaults(), &flows), [Some(0), Some(1), None, Some(1)]);
    }

    /// The first flow leaves group 0, which keeps its number; a new group takes the lowest that is free;
    /// of two halves of a group the larger keeps the number.
    #[test]
    fn groups_keep_their_numbers() {
        let some = |numbers: [i64; 4]| numbers.map(|number| u32::try_from(number).ok());
        let cases = [
            ([0, 0, 1, 1], [-1, 0, 1, 1], [-1, 0, 1, 1]),
            ([0, 0, 1, 1], [-1, -1, 0, 0], [-1, -1, 1, 1]),
            ([0, 1, 1, 1], [0, 1, 2, 2], [0, 2, 1, 1]),
            ([-1, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1]),
        ];
        for (before, found, after) in cases {
            assert_eq!(renumber(&some(before), &some(found)), some(after));
        }
    }

    #[test]
    fn a_constant_delay_is_no_bottleneck() {
        let sbd = run(defaults(), &[&[5, 5], &[5, 5], &[5, 5]]);
        assert_eq!(*sbd.estimate(0), Estimate { mean: 5.0, ..Estimate::default() });
    }

    #[test]
    fn groups_wait_for_their_confirmation() {
        let options = SbdOptions { n: 1, m: 1, f: 1, confirmations: 2, ..defaults() };
        let mut sbd = SharedBottleneck::new(options, 1);
        let mut seen = Vec::new();
        for delays in [[0, 0], [1, 1], [2, 2]] {
            for delay in delays {
                sbd.on_delay(0, delay);
            }
            seen.push(sbd.end_interval()[0]);
        }
        assert_eq!(seen, [None, None, Some(0)]);
    }

    proptest! {
        #[test]
        fn offsets_move_means_only(
            intervals in prop::collection::vec(
                prop::collection::vec(0_i64..1_000_000_000, 0..20), 1..40,
            ),
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
        ) {
            let shifted: Vec<Vec<i64>> = intervals
                .iter()
                .map(|delays| delays.iter().map(|delay| delay + offset).collect())
                .collect();
            let all = |delays: &[Vec<i64>]| {
                let slices: Vec<&[i64]> = delays.iter().map(Vec::as_slice).collect();
                *run(defaults(), &slices).estimate(0)
            };
            let (plain, moved) = (all(&intervals), all(&shifted));
            prop_assert_eq!(Estimate { mean: 0.0, ..plain }, Estimate { mean: 0.0, ..moved });
            if intervals.iter().any(|delays| !delays.is_empty()) {
                prop_assert!((moved.mean - plain.mean - offset as f64).abs() < 1e-2);
            }
        }

        #[test]
        fn estimates_stay_in_their_ranges(
            intervals in prop::collection::vec(
                prop::collection::vec((any::<i64>(), any::<u64>()), 0..8), 1..60,
            ),
        ) {
            let mut sbd = SharedBottleneck::new(defaults(), 2);
            for interval in intervals {
                for (delay, lost) in interval {
                    sbd.on_delay(0, delay);
                    sbd.on_delay(1, delay / 2);
                    sbd.on_loss(1, lost);
                }
                sbd.end_interval();
                for flow in 0..2 {
                    let e = sbd.estimate(flow);
                    prop_assert!((-1.0..=1.0).contains(&e.skewness), "{}", e.skewness);
                    prop_assert!((0.0..=1.0).contains(&e.frequency), "{}", e.frequency);
                    prop_assert!((0.0..=1.0).contains(&e.loss), "{}", e.loss);
                    prop_assert!(e.variability >= 0.0 && e.variability.is_finite());
                }
            }
        }
    }
}
