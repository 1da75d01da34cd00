//! XCP's router: a FIFO that writes into each congestion header by how much the flow's rate is to change
//! (Katabi, Handley and Rohrs, SIGCOMM 2002), in the rates of draft-falk-xcp-spec-03.
//!
//! Once a control interval, which is the mean round-trip time, the efficiency controller says by how much
//! all traffic together is to change, and the fairness controller spreads it over the packets of the next
//! interval: what is added equally over flows, what is taken away in proportion to their rates. Two
//! timers of the draft, the end of the control interval and that of the look for the persistent queue, are
//! made up for at the next call.

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, CongestionHeader, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos,
    Packet, QueueDiscipline,
};

/// Control interval before a round-trip time is known, and bounds of those that count, seconds.
const FIRST_INTERVAL: f64 = 0.05;
const MIN_INTERVAL: f64 = 0.001;
const MAX_RTT: f64 = 1.0;
/// Least time between two looks for the persistent queue, seconds.
const MIN_LOOK: f64 = 0.002;
/// Stands for the throughput of a sender that claims none, bytes per second.
const LEAST_THROUGHPUT: f64 = 0.1;
const NANO: f64 = 1e9;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "xcp",
        summary: "Tells each flow in its packets by how much to change its rate; needs XCP senders",
        source: "Katabi, Handley and Rohrs 2002, draft-falk-xcp-spec-03",
        params: vec![
            ParamInfo::new("rate", Unit::LinkRate, 10_000_000, "Rate of the link").at_least(1.0),
            ParamInfo::new(
                "alpha",
                Unit::Number,
                0.4,
                "Share of the spare rate that is given in a control interval",
            )
            .at_least(0.0)
            .at_most(1.0),
            ParamInfo::new(
                "beta",
                Unit::Number,
                0.226,
                "Share of the persistent queue that is taken back in a control interval",
            )
            .at_least(0.0)
            .at_most(1.0),
            ParamInfo::new(
                "shuffling",
                Unit::Fraction,
                0.1,
                "Share of the traffic that at least changes hands in a control interval",
            )
            .at_least(0.0)
            .at_most(1.0),
            ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop")
                .at_least(1.0),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, _seed: u64) -> Built<P> {
    Ok(Box::new(Xcp {
        control: Control::new(Gains {
            rate: values.number("rate") / 8.0,
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            shuffling: values.number("shuffling"),
        }),
        limit: values.whole("limit"),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

#[derive(Clone, Copy, Debug)]
struct Gains {
    /// Bytes per second.
    rate: f64,
    alpha: f64,
    beta: f64,
    shuffling: f64,
}

/// What arrived in a control interval.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    bytes: f64,
    /// Over packets of known throughput: the time that the flow takes for the packet, and that times its
    /// round-trip time.
    time: f64,
    time_rtt: f64,
}

impl Input {
    fn add(&mut self, bytes: f64, header: Option<CongestionHeader>) {
        self.bytes += bytes;
        if let Some(header) = header
            && header.rtt > 0.0
            && header.throughput > 0.0
        {
            let time = bytes / f64::from(header.throughput).max(LEAST_THROUGHPUT);
            self.time += time;
            self.time_rtt += time * f64::from(header.rtt).min(MAX_RTT);
        }
    }
}

/// What is left to hand out in this interval, and each packet's part: of the increase for each second that
/// the flow takes for the packet, of the decrease for each byte.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    increase: f64,
    decrease: f64,
    per_second: f64,
    per_byte: f64,
}

impl Shares {
    /// `change`: that of all traffic's rate; `traffic`: the rate that it was counted at.
    fn new(change: f64, shuffling: f64, traffic: f64, input: &Input) -> Self {
        let shuffled = (shuffling * traffic - change.abs()).max(0.0);
        let increase = change.max(0.0) + shuffled;
        let decrease = (-change).max(0.0) + shuffled;
        let over = |share: f64, sum: f64| if sum > 0.0 { share / sum } else { share };
        Self {
            increase,
            decrease,
            per_second: over(increase, input.time),
            per_byte: over(decrease, input.bytes),
        }
    }

    /// Feedback for a packet that carries a header.
    fn hand_out(&mut self, bytes: f64, header: CongestionHeader) -> f32 {
        if header.rtt <= 0.0 {
            return 0.0;
        }
        let throughput = f64::from(header.throughput).max(LEAST_THROUGHPUT);
        let mut increase = self.increase.min(self.per_second * bytes / throughput);
        let mut decrease = self.decrease.min(self.per_byte * bytes);
        let mut feedback = increase - decrease;
        let asked = f64::from(header.feedback.max(f32::MIN));
        if asked < feedback {
            // The sender or another router wants less: the difference goes to others.
            decrease = self.decrease.min(decrease + feedback - asked);
            increase = asked + decrease;
            feedback = asked;
        }
        self.increase = (self.increase - increase).max(0.0);
        self.decrease = (self.decrease - decrease).max(0.0);
        if self.increase == 0.0 {
            self.per_second = 0.0;
        }
        if self.decrease == 0.0 {
            self.per_byte = 0.0;
        }
        feedback as f32
    }
}

/// Both controllers of a link.
#[derive(Clone, Debug)]
struct Control {
    gains: Gains,
    input: Input,
    shares: Shares,
    /// Seconds of the present control interval.
    interval: f64,
    interval_end: Nanos,
    /// The persistent queue in bytes, and the shortest since the last look for it.
    queue: u64,
    shortest: u64,
    next_look: Nanos,
    /// Of the last interval, bytes per second: what arrived, and by how much that was to change.
    traffic: f64,
    change: f64,
    started: bool,
}

impl Control {
    fn new(gains: Gains) -> Self {
        Self {
            gains,
            input: Input::default(),
            shares: Shares::default(),
            interval: FIRST_INTERVAL,
            interval_end: 0,
            queue: 0,
            shortest: 0,
            next_look: 0,
            traffic: 0.0,
            change: 0.0,
            started: false,
        }
    }

    /// The timers run from the first packet on.
    fn start(&mut self, now: Nanos) {
        self.started = true;
        self.interval_end = now + nanos(self.interval);
        self.next_look = now + nanos(self.look_time(0));
    }

    /// Make up for the timers up to now. `backlog` has not changed since the last call.
    fn catch_up(&mut self, now: Nanos, backlog: u64) {
        while self.started && self.interval_end.min(self.next_look) <= now {
            if self.next_look <= self.interval_end {
                self.look(backlog);
                continue;
            }
            let idle = self.input.bytes == 0.0;
            self.end_interval();
            if idle && self.queue == backlog && self.shortest == backlog {
                // All further intervals up to now are like this one.
                let (interval, look) = (nanos(self.interval), nanos(self.look_time(backlog)));
                self.interval_end += (now.saturating_sub(self.interval_end) / interval) * interval;
                self.next_look += (now.saturating_sub(self.next_look) / look) * look;
            }
        }
    }

    /// The efficiency controller (equation 1 of the paper, divided by the control interval).
    fn end_interval(&mut self) {
        let input = std::mem::take(&mut self.input);
        self.traffic = input.bytes / self.interval;
        let mean_rtt = if input.time > 0.0 { input.time_rtt / input.time } else { FIRST_INTERVAL };
        self.interval = mean_rtt.max(MIN_INTERVAL);
        let Gains { rate, alpha, beta, shuffling } = self.gains;
        self.change = alpha * (rate - self.traffic) - beta * self.queue as f64 / self.interval;
        self.shares = Shares::new(self.change, shuffling, self.traffic, &input);
        self.interval_end += nanos(self.interval);
    }

    /// The persistent queue is what did not drain in half of a round-trip time without queueing.
    fn look(&mut self, backlog: u64) {
        self.queue = self.shortest;
        self.shortest = backlog;
        self.next_look += nanos(self.look_time(backlog));
    }

    fn look_time(&self, backlog: u64) -> f64 {
        ((self.interval - backlog as f64 / self.gains.rate) / 2.0).max(MIN_LOOK)
    }
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * NANO) as Nanos
}

#[derive(Debug)]
struct Xcp<P> {
    control: Control,
    limit: u64,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for Xcp<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if self.control.started {
            self.control.catch_up(now, self.backlog.bytes());
        } else {
            self.control.start(now);
        }
        self.control.input.add(f64::from(packet.bytes()), packet.congestion_header());
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        self.backlog.push(now, packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.control.catch_up(now, self.backlog.bytes());
        let Some(mut packet) = self.backlog.pop() else {
            return Dequeued::Empty;
        };
        self.control.shortest = self.control.shortest.min(self.backlog.bytes());
        if let Some(header) = packet.congestion_header() {
            let feedback = self.control.shares.hand_out(f64::from(packet.bytes()), header);
            packet.set_feedback(feedback);
        }
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.control.catch_up(now, self.backlog.bytes());
        out("interval", self.control.interval);
        out("traffic", self.control.traffic * 8.0);
        out("feedback", self.control.change * 8.0);
        out("persistent_queue", self.control.queue as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn header(rtt: f32, throughput: f32) -> CongestionHeader {
        CongestionHeader { rtt, throughput, feedback: f32::INFINITY }
    }

    fn control() -> Control {
        Control::new(Gains { rate: 1e6, alpha: 0.4, beta: 0.226, shuffling: 0.1 })
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-6 * expected.abs(), "{value}, not {expected}");
    }

    /// One control interval by hand, for equations 1 to 9 of the paper as rates. Capacity 1,000,000 B/s.
    /// In the first 50 ms arrive 20 packets of 1000 B of flow A (RTT 40 ms, 400,000 B/s) and 5 of flow B
    /// (RTT 80 ms, 100,000 B/s); a queue of 5000 B persists.
    ///
    /// Traffic: 25,000 B / 50 ms = 500,000 B/s. Mean RTT, weighed by s/throughput (2.5 ms and 10 ms a
    /// packet): (20 * 2.5 * 40 + 5 * 10 * 80) / (20 * 2.5 + 5 * 10) = 60 ms. Change: 0.4 * 500,000 -
    /// 0.226 * 5000 / 0.06 = 181,166.67 B/s. That is above 10 % of the traffic, so nothing is shuffled.
    /// Increase: 181,166.67 / (100 ms of s/throughput) for each second of s/throughput: 4529.17 B/s a
    /// packet of A, 18,116.67 B/s a packet of B; as many packets as in this interval use it up, and both
    /// flows get the same: 90,583.33 B/s.
    #[test]
    fn one_interval_by_hand() {
        let (a, b) = (header(0.04, 400e3), header(0.08, 100e3));
        let mut control = control();
        control.start(0);
        for (packets, header) in [(20, a), (5, b)] {
            (0..packets).for_each(|_| control.input.add(1000.0, Some(header)));
        }
        (control.queue, control.shortest) = (5000, 5000);
        control.catch_up(50 * MS, 5000);
        assert_near(control.traffic, 500e3);
        assert_near(control.interval, 0.06);
        assert_near(control.change, 181_166.666_7);
        assert_near(control.interval_end as f64, 110e6);
        let shares = &mut control.shares;
        assert_near(f64::from(shares.hand_out(1000.0, a)), 4_529.166_7);
        assert_near(f64::from(shares.hand_out(1000.0, b)), 18_116.666_7);
        let rest: f64 = (1..20).map(|_| f64::from(shares.hand_out(1000.0, a))).sum();
        assert_near(rest + 4_529.166_7, 90_583.333_3);
        let rest: f64 = (1..5).map(|_| f64::from(shares.hand_out(1000.0, b))).sum();
        assert_near(rest + 18_116.666_7, 90_583.333_3);
        assert!(shares.increase < 1.0);
        // Residues: nothing is given beyond the aggregate.
        (0..3).for_each(|_| _ = shares.hand_out(1000.0, b));
        assert_eq!(shares.hand_out(1000.0, b), 0.0);
    }

    /// A fully used link: no change, and 10 % of the traffic changes hands (equation 2): each of two
    /// flows gets 50,000 B/s more, and gives 10 % of its own rate, in the packets of 50 ms.
    #[test]
    fn shuffling_moves_rate_from_the_fast_to_the_slow() {
        let (fast, slow) = (header(0.05, 800e3), header(0.05, 200e3));
        let mut control = control();
        control.start(0);
        for (packets, header) in [(40, fast), (10, slow)] {
            (0..packets).for_each(|_| control.input.add(1000.0, Some(header)));
        }
        control.catch_up(50 * MS, 0);
        assert_near(control.interval, 0.05);
        assert!(control.change.abs() < 1.0);
        let mut sum = |packets, header| {
            (0..packets)
                .map(|_| f64::from(control.shares.hand_out(1000.0, header)))
                .sum::<f64>()
                .round()
        };
        assert_eq!(sum(40, fast), 50e3 - 80e3);
        assert_eq!(sum(10, slow), 50e3 - 20e3);
    }

    /// An overloaded link takes from each flow in proportion to its rate (equations 7 to 9): traffic of
    /// 1,500,000 B/s on 1,000,000 B/s has to shrink by 0.4 * 500,000 B/s.
    #[test]
    fn an_overload_is_taken_back_in_proportion() {
        let (fast, slow) = (header(0.05, 1.2e6), header(0.05, 300e3));
        let mut control = control();
        control.start(0);
        for (packets, header) in [(60, fast), (15, slow)] {
            (0..packets).for_each(|_| control.input.add(1000.0, Some(header)));
        }
        control.catch_up(50 * MS, 0);
        assert_near(control.change, -200e3);
        let mut sum = |packets, header| -> f64 {
            (0..packets).map(|_| f64::from(control.shares.hand_out(1000.0, header))).sum()
        };
        assert_near(sum(60, fast), -160e3);
        assert_near(sum(15, slow), -40e3);
    }

    /// A packet that asks for less keeps what it asks for, and what it leaves is not given to it again:
    /// the increase shrinks by what it took, and what it takes away counts as taken.
    #[test]
    fn the_least_of_all_routers_counts() {
        let mut shares = Shares { increase: 1e5, decrease: 1e4, per_second: 1e7, per_byte: 1.0 };
        let modest = CongestionHeader { rtt: 0.05, throughput: 1e6, feedback: 2000.0 };
        // Offered: 10,000 - 1000. It asks for 2000: that is 7000 less.
        assert_eq!(shares.hand_out(1000.0, modest), 2000.0);
        assert_eq!((shares.increase, shares.decrease), (90_000.0, 2000.0));
        let unknown = CongestionHeader { rtt: 0.0, ..modest };
        assert_eq!(shares.hand_out(1000.0, unknown), 0.0);
        assert_eq!(shares.increase, 90_000.0);
    }

    /// The persistent queue is the shortest since the last look; looks come every half of the round-trip
    /// time less the queueing: 25 ms in an interval of 50 ms with no queue, 15 ms with 20,000 B.
    #[test]
    fn the_queue_that_stays_counts() {
        let mut control = control();
        control.start(0);
        (control.queue, control.shortest) = (0, 20_000);
        control.catch_up(25 * MS, 20_000);
        assert_eq!((control.queue, control.next_look), (20_000, 40 * MS));
        control.shortest = 3000;
        control.catch_up(40 * MS, 9000);
        assert_eq!((control.queue, control.shortest), (3000, 9000));
    }

    /// An idle hour costs no more than a second, and leaves the same.
    #[test]
    fn idle_times_are_skipped() {
        let hour = 3_600_000 * MS;
        let mut control = control();
        control.start(0);
        control.input.add(1000.0, Some(header(0.7, 1e6)));
        let mut stepped = control.clone();
        control.catch_up(hour, 4000);
        (1..=36_000).for_each(|step| stepped.catch_up(step * 100 * MS, 4000));
        assert_eq!(format!("{control:?}"), format!("{stepped:?}"));
        assert!(control.interval_end > hour && control.next_look > hour);
    }
}
