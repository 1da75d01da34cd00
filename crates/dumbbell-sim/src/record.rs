//! Recording: time series at each tick, and the result at the end of the run.

use std::sync::Arc;

use dumbbell_queue::Packet as _;
use dumbbell_transport::flow::Snapshot;
use dumbbell_transport::{Kind, Packet, flags};
use serde_json::{Map, Value, json};

use crate::capacity::Trace;
use crate::config::{Capacity, Config, Transport};
use crate::connection::Phase;
use crate::engine::{Engine, TimerKind, timer_id};
use crate::entry::Entry;
use crate::histogram::Histogram;
use crate::link::Discipline;
use crate::output::{
    Column, DropsByReason, Effective, EffectiveController, EffectiveOther, EffectiveTcp,
    FlowSummary, LinkSummary, Output, ProbeSummary, Quantiles, Summary, Table, Totals,
};

/// The window in which a flow's window is sampled when no series are recorded.
const SAMPLE_INTERVAL: u64 = 100_000_000;

/// Names met so far, as codes.
#[derive(Debug, Default)]
struct Names {
    codes: Vec<u32>,
    names: Vec<String>,
}

impl Names {
    fn push(&mut self, name: &str) {
        let code = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.codes.push(code as u32);
    }

    fn column(self) -> Column {
        Column::Name { codes: self.codes, names: self.names }
    }
}

#[derive(Debug, Default)]
struct FlowSeries {
    t: Vec<f64>,
    flow: Vec<u32>,
    goodput: Vec<f64>,
    cwnd: Vec<f64>,
    ssthresh: Vec<f64>,
    rtt: Vec<f64>,
    inflight: Vec<f64>,
    pacing: Vec<f64>,
    retransmits: Vec<u64>,
    phase: Names,
}

#[derive(Debug, Default)]
struct LinkSeries {
    t: Vec<f64>,
    link: Vec<u32>,
    throughput: Vec<f64>,
    queue_packets: Vec<u64>,
    queue_delay: Vec<f64>,
    queue_delay_max: Vec<f64>,
    drops: Vec<u64>,
    marks: Vec<u64>,
    sce_marks: Vec<u64>,
    capacity: Vec<f64>,
}

/// Variables of flows' controllers, or of links' queues.
#[derive(Debug, Default)]
struct VariableSeries {
    t: Vec<f64>,
    owner: Vec<u32>,
    name: Names,
    value: Vec<f64>,
}

impl VariableSeries {
    fn push(&mut self, t: f64, owner: u32, name: &str, value: f64) {
        self.t.push(t);
        self.owner.push(owner);
        self.name.push(name);
        self.value.push(value);
    }

    /// `kind` is what the owners are: "flow" or "link".
    fn table(self, kind: &'static str, names: &[String]) -> Table {
        table([
            ("t", Column::F64(self.t)),
            (kind, Column::Name { codes: self.owner, names: names.to_vec() }),
            ("name", self.name.column()),
            ("value", Column::F64(self.value)),
        ])
    }
}

#[derive(Debug, Default)]
struct Capture {
    t: Vec<u64>,
    link: Names,
    flow: Names,
    event: Names,
    kind: Names,
    ip_bytes: Vec<u64>,
    payload: Vec<u64>,
    seq: Vec<u64>,
    ack: Vec<u64>,
    flags: Vec<u64>,
    ecn: Vec<u64>,
    reason: Names,
}

/// What a link had done at the start of the window and at the last tick.
#[derive(Clone, Copy, Debug, Default)]
struct LinkMark {
    bytes: u64,
    drops: u64,
    marks: u64,
}

pub(crate) struct Recorder {
    pub(crate) warmup: u64,
    interval: u64,
    record: bool,
    flows: FlowSeries,
    links: LinkSeries,
    controllers: VariableSeries,
    queues: VariableSeries,
    capture: Capture,
    last_bytes: Vec<u64>,
    window: Vec<LinkMark>,
    /// Rate changes of each link: (time, bit/s from then on).
    rates: Vec<Vec<(u64, u64)>>,
    traces: Vec<Option<Trace>>,
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

pub(crate) fn quantiles(histogram: &Histogram) -> Quantiles {
    Quantiles {
        mean: histogram.mean().map(ms),
        p50: histogram.quantile(0.50).map(ms),
        p95: histogram.quantile(0.95).map(ms),
        p99: histogram.quantile(0.99).map(ms),
        max: histogram.max().map(ms),
    }
}

impl Recorder {
    pub(crate) fn new(config: &Config) -> Self {
        let rates = config.links.iter().map(|link| match link.capacity {
            Capacity::Constant { bps, .. } => vec![(0, bps)],
            _ => Vec::new(),
        });
        let traces = config.links.iter().map(|link| match &link.capacity {
            Capacity::Trace { ms, mtu } => Some(Trace::new(ms.clone(), *mtu)),
            _ => None,
        });
        Self {
            warmup: config.warmup_ns,
            interval: if config.interval_ns > 0 { config.interval_ns } else { SAMPLE_INTERVAL },
            record: config.interval_ns > 0,
            flows: FlowSeries::default(),
            links: LinkSeries::default(),
            controllers: VariableSeries::default(),
            queues: VariableSeries::default(),
            capture: Capture::default(),
            last_bytes: vec![0; config.links.len()],
            window: vec![LinkMark::default(); config.links.len()],
            rates: rates.collect(),
            traces: traces.collect(),
        }
    }

    pub(crate) fn on_rate_change(&mut self, link: usize, now: u64, bps: u64) {
        self.rates[link].push((now, bps));
    }

    /// Bits that a link can have carried over `[from, to]`; `None` if unlimited.
    pub(crate) fn capacity_bits(&self, link: usize, from: u64, to: u64) -> Option<f64> {
        if let Some(trace) = &self.traces[link] {
            let count = trace.count_until(to) - trace.count_until(from);
            return Some(count as f64 * f64::from(trace.mtu) * 8.0);
        }
        let rates = &self.rates[link];
        if rates.is_empty() {
            return None;
        }
        let ends = rates.iter().skip(1).map(|&(at, _)| at).chain([u64::MAX]);
        Some(
            rates
                .iter()
                .zip(ends)
                .map(|(&(start, bps), end)| {
                    let overlap = end.min(to).saturating_sub(start.max(from));
                    overlap as f64 * bps as f64 / 1e9
                })
                .sum(),
        )
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn capture(
        &mut self,
        now: u64,
        place: &str,
        flow: &str,
        event: &str,
        packet: &Packet,
        seq: u64,
        ack: u64,
    ) {
        let capture = &mut self.capture;
        let (event, reason) = event.split_once('-').unwrap_or((event, ""));
        capture.t.push(now);
        capture.link.push(place);
        capture.flow.push(flow);
        capture.event.push(event);
        capture.kind.push(match packet.kind {
            Kind::Data => "data",
            Kind::Ack => "ack",
            Kind::Syn => "syn",
            Kind::SynAck => "syn-ack",
            Kind::Datagram => "datagram",
            Kind::Ping => "ping",
            Kind::Pong => "pong",
            Kind::Request => "request",
            Kind::Payload => "payload",
            Kind::Report => "report",
            Kind::LowPayload => "low-payload",
            Kind::StrongAck => "strong-ack",
        });
        capture.ip_bytes.push(u64::from(packet.ip_bytes));
        let payload = if packet.kind == Kind::Ack { 0 } else { packet.payload };
        capture.payload.push(u64::from(payload));
        capture.seq.push(seq);
        capture.ack.push(ack);
        capture.flags.push(u64::from(packet.flags & !flags::ECN_MASK));
        capture.ecn.push(packet.ecn() as u64);
        capture.reason.push(reason);
    }
}

impl Engine<'_> {
    /// Recording and watchdog, at each interval.
    pub(crate) fn on_tick(&mut self) {
        let now = self.now;
        self.watch_for_stalls();
        for index in 0..self.entries.len() {
            // Users have samples of their own.
            if self.entries[index].crowd.is_none() {
                self.sample_flow(index);
            }
        }
        if self.recorder.record && now > 0 {
            for index in 0..self.links.len() {
                self.sample_link(index);
            }
        }
        for index in 0..self.links.len() {
            self.check_capacity(index);
        }
        self.timers.push(now + self.recorder.interval, timer_id(TimerKind::Tick, 0));
    }

    fn sample_flow(&mut self, index: usize) {
        let now = self.now;
        let entry = &mut self.entries[index];
        let delta = entry.delivered_bytes - entry.series_bytes;
        entry.series_bytes = entry.delivered_bytes;
        let recorder = &mut self.recorder;
        let recorded = recorder.record && now > 0;
        let mut record = |name: &'static str, value| {
            if recorded {
                recorder.controllers.push(seconds(now), index as u32, name, value);
            }
        };
        let mut state = None;
        let mut retransmits = entry.ended.retransmits;
        if entry.transport.is_some() {
            let session = entry.slot.map(|slot| &self.sessions[slot as usize]);
            if let Some(session) = session.filter(|session| session.open) {
                state = Some(session.sender.snapshot());
                retransmits += session.sender.stats().retransmits;
                session.sender.record(&mut record);
                session.receiver.record(&mut record);
            }
        } else if let Some(slot) = entry.slot
            && let connection = &self.connections[slot as usize]
            && connection.phase == Phase::Established
        {
            state = Some(connection.snapshot(entry.tcp().map_or(1, |tcp| tcp.mss)));
            retransmits += connection.sender.stats().retransmits;
            connection.sender.controller().record(&mut record);
        }
        if let Some(at) = entry.membership {
            self.couplings[at.coupling as usize].record(at.member, &mut record);
        }
        if let Some(state) = state
            && state.window.is_finite()
            && now >= recorder.warmup
        {
            entry.cwnd_sum += state.window;
            entry.cwnd_samples += 1;
            entry.cwnd_max = entry.cwnd_max.max(state.window);
        }
        if !recorded {
            return;
        }
        let series = &mut recorder.flows;
        series.t.push(seconds(now));
        series.flow.push(index as u32);
        series.goodput.push(delta as f64 * 8e9 / recorder.interval as f64);
        let of = |value: fn(&Snapshot) -> f64| state.as_ref().map_or(f64::NAN, value);
        series.cwnd.push(of(|state| state.window));
        series.ssthresh.push(of(|state| state.ssthresh));
        series.rtt.push(of(|state| ms(state.srtt as f64)));
        series.inflight.push(of(|state| state.in_flight));
        series.pacing.push(of(|state| state.rate));
        series.retransmits.push(retransmits);
        series.phase.push(state.map_or("", |state| state.phase));
    }

    fn sample_link(&mut self, index: usize) {
        let now = self.now;
        let link = &mut self.links[index];
        let (_, bytes) = link.departed(now);
        let (packets, _) = link.backlog(now);
        let (sum, count, max) = std::mem::take(&mut link.sojourn.interval);
        let counters = link.queue_counters();
        let drops = link.counters.drops;
        let recorder = &mut self.recorder;
        let delta = bytes - std::mem::replace(&mut recorder.last_bytes[index], bytes);
        let bits = recorder.capacity_bits(index, now - recorder.interval, now);
        let per_second = 1e9 / recorder.interval as f64;
        let series = &mut recorder.links;
        series.t.push(seconds(now));
        series.link.push(index as u32);
        series.throughput.push(delta as f64 * 8.0 * per_second);
        series.queue_packets.push(packets);
        let mean = if count > 0 { ms(sum as f64 / count as f64) } else { 0.0 };
        series.queue_delay.push(mean);
        series.queue_delay_max.push(ms(max as f64));
        series.drops.push(drops);
        series.marks.push(counters.marked);
        series.sce_marks.push(counters.marked_sce);
        series.capacity.push(bits.map_or(f64::NAN, |bits| bits * per_second));
        if let Discipline::Stored(stored) = &mut link.discipline {
            let queues = &mut recorder.queues;
            stored.queue.record(now, &mut |name, value| {
                queues.push(seconds(now), index as u32, name, value);
            });
        }
    }

    /// Start of the summary's window (all links), and start and end of each flow's.
    pub(crate) fn on_mark(&mut self, index: u32) {
        let entry = index as usize / 2;
        if entry >= self.entries.len() {
            for index in 0..self.links.len() {
                self.recorder.window[index] = self.link_mark(index);
            }
            return;
        }
        let bytes = self.entries[entry].delivered_bytes;
        if index.is_multiple_of(2) {
            self.entries[entry].window_bytes.0 = bytes;
            return;
        }
        self.entries[entry].window_bytes.1 = Some(bytes);
        if self.now >= self.entries[entry].config.stop_ns {
            self.stop_entry(entry as u32);
        }
    }

    fn link_mark(&mut self, index: usize) -> LinkMark {
        let link = &mut self.links[index];
        LinkMark {
            bytes: link.departed(self.now).1,
            drops: link.counters.drops,
            marks: link.queue_counters().marked,
        }
    }

    // ---- the result ----------------------------------------------------------------------------

    pub(crate) fn finish(mut self) -> Output {
        let flows: Vec<FlowSummary> =
            (0..self.entries.len()).map(|index| self.flow_summary(index)).collect();
        let links: Vec<LinkSummary> =
            (0..self.links.len()).map(|index| self.link_summary(index)).collect();
        let probes = self.probe_summaries();
        let shares: Vec<f64> = flows.iter().map(|flow| flow.goodput_bps).collect();
        let totals = Totals {
            jain: jain(&shares),
            packets: links.iter().map(|link| link.packets).sum(),
            events: self.events,
            simulated_s: seconds(self.end),
            complete: self.complete,
        };
        let summary = Summary { flows, links, probes, totals };
        Output { tables: self.tables(), summary }
    }

    fn flow_summary(&self, index: usize) -> FlowSummary {
        let entry = &self.entries[index];
        let (from, to) = entry.window(self.end);
        let last = entry.window_bytes.1.unwrap_or(entry.delivered_bytes);
        let counted = last.saturating_sub(entry.window_bytes.0);
        let mut stats = entry.ended;
        for &slot in &entry.open {
            if entry.transport.is_some() {
                stats.add(&self.sessions[slot as usize].sender.stats());
            } else {
                stats.add(self.connections[slot as usize].sender.stats());
            }
        }
        let durations: Vec<u64> = entry.completions.iter().map(|c| c.duration).collect();
        let mean = durations.iter().sum::<u64>() as f64 / durations.len().max(1) as f64;
        FlowSummary {
            id: entry.id().to_owned(),
            cc: entry.cc_name().to_owned(),
            goodput_bps: if to > from { counted as f64 * 8.0 / seconds(to - from) } else { 0.0 },
            rtt_ms: quantiles(&entry.rtt),
            loss_ratio: entry.dropped as f64 / entry.sent.max(1) as f64,
            mark_ratio: entry.marked_arrived as f64 / entry.arrived.max(1) as f64,
            retransmits: stats.retransmits,
            completion_s: (!durations.is_empty()).then(|| mean / 1e9),
            cwnd_mean: entry.cwnd_sum / entry.cwnd_samples.max(1) as f64,
            cwnd_max: entry.cwnd_max,
            sent_packets: entry.sent,
            sent_answers: entry.acks_sent,
            delivered_packets: entry.arrived,
            dropped_packets: entry.dropped,
            delivered_bytes: entry.delivered_bytes,
            timeouts: stats.timeouts,
            recoveries: stats.recoveries,
            spurious_recoveries: stats.spurious,
            tail_probes: stats.tail_probes,
            ecn_reductions: stats.ecn_reductions,
            ecn_failed: stats.ecn_failed,
            connections: entry.connections,
            completed: durations.len() as u64 + entry.completed,
            media: self.media_summary(index),
            effective: effective(entry),
        }
    }

    fn link_summary(&mut self, index: usize) -> LinkSummary {
        let end = self.link_mark(index);
        let start = self.recorder.window[index];
        let bits = self.recorder.capacity_bits(index, self.recorder.warmup, self.end);
        let carried = (end.bytes - start.bytes) as f64 * 8.0;
        let link = &mut self.links[index];
        let (packets, _) = link.departed(self.now);
        let queue = link.queue_counters();
        let config = &self.config.links[index];
        LinkSummary {
            id: config.id.clone(),
            utilisation: bits.filter(|&bits| bits > 0.0).map_or(0.0, |bits| carried / bits),
            queue_delay_ms: quantiles(&link.sojourn.histogram),
            packets,
            drops: end.drops,
            marks: end.marks,
            drops_window: end.drops - start.drops,
            marks_window: end.marks - start.marks,
            sce_marks: queue.marked_sce,
            drops_by_reason: DropsByReason {
                overflow: queue.dropped_overflow,
                aqm: queue.dropped_aqm,
                policed: queue.dropped_policed,
                ack_filter: queue.dropped_ack_filter,
            },
            random_losses: link.counters.random_losses,
            acks_thinned: link.counters.acks_thinned,
            capacity_bps: bits
                .filter(|_| self.end > self.recorder.warmup)
                .map(|bits| bits / seconds(self.end - self.recorder.warmup)),
            effective: json!({
                "queue": config.queue.kind,
                "params": queue_params(&config.queue.kind, &config.queue.params),
                "delay_ms": config.delay_ns as f64 / 1e6,
                "rate_bps": link.bps(),
                "overhead": config.framing.overhead,
            }),
        }
    }

    fn probe_summaries(&self) -> Vec<ProbeSummary> {
        self.config
            .probes
            .iter()
            .zip(&self.probes)
            .map(|(config, state)| ProbeSummary {
                id: config.id.clone(),
                rtt_ms: quantiles(&state.delay),
                sent: state.sent,
                lost: state.dropped,
            })
            .collect()
    }

    fn tables(&mut self) -> Vec<(&'static str, Table)> {
        let flow_names: Vec<String> =
            self.entries.iter().map(|entry| entry.id().to_owned()).collect();
        let link_names: Vec<String> =
            self.config.links.iter().map(|link| link.id.clone()).collect();
        let flow_column = |codes| Column::Name { codes, names: flow_names.clone() };
        let link_column = |codes| Column::Name { codes, names: link_names.clone() };
        let flows = std::mem::take(&mut self.recorder.flows);
        let links = std::mem::take(&mut self.recorder.links);
        let controllers = std::mem::take(&mut self.recorder.controllers);
        let queues = std::mem::take(&mut self.recorder.queues);
        let capture = std::mem::take(&mut self.recorder.capture);
        let mut tables = vec![
            (
                "flow_series",
                table([
                    ("t", Column::F64(flows.t)),
                    ("flow", flow_column(flows.flow)),
                    ("goodput_bps", Column::F64(flows.goodput)),
                    ("cwnd", Column::F64(flows.cwnd)),
                    ("ssthresh", Column::F64(flows.ssthresh)),
                    ("rtt_ms", Column::F64(flows.rtt)),
                    ("inflight", Column::F64(flows.inflight)),
                    ("pacing_bps", Column::F64(flows.pacing)),
                    ("retransmits", Column::U64(flows.retransmits)),
                    ("phase", flows.phase.column()),
                ]),
            ),
            ("controller_series", controllers.table("flow", &flow_names)),
            ("queue_series", queues.table("link", &link_names)),
            (
                "link_series",
                table([
                    ("t", Column::F64(links.t)),
                    ("link", link_column(links.link)),
                    ("throughput_bps", Column::F64(links.throughput)),
                    ("queue_packets", Column::U64(links.queue_packets)),
                    ("queue_delay_ms", Column::F64(links.queue_delay)),
                    ("queue_delay_max_ms", Column::F64(links.queue_delay_max)),
                    ("drops", Column::U64(links.drops)),
                    ("marks", Column::U64(links.marks)),
                    ("sce_marks", Column::U64(links.sce_marks)),
                    ("capacity_bps", Column::F64(links.capacity)),
                ]),
            ),
        ];
        let rtts = self.entries.iter().map(|entry| &entry.rtt);
        tables.push(("flow_rtt_cdf", cdf_table("flow", "rtt_ms", &flow_names, rtts)));
        let delays = self.links.iter().map(|link| &link.sojourn.histogram);
        tables.push(("queue_delay_cdf", cdf_table("link", "delay_ms", &link_names, delays)));
        tables.push(("completions", self.completions(flow_names.clone())));
        tables.push(("probe_samples", self.probe_samples()));
        tables.extend(self.frames_table().map(|frames| ("frames", frames)));
        if let Some(users) = self.user_recorder.take() {
            tables.extend(users.tables());
        }
        if self.config.capture {
            tables.push((
                "capture",
                table([
                    ("t_ns", Column::U64(capture.t)),
                    ("link", capture.link.column()),
                    ("flow", capture.flow.column()),
                    ("event", capture.event.column()),
                    ("kind", capture.kind.column()),
                    ("ip_bytes", Column::U64(capture.ip_bytes)),
                    ("payload", Column::U64(capture.payload)),
                    ("seq", Column::U64(capture.seq)),
                    ("ack", Column::U64(capture.ack)),
                    ("flags", Column::U64(capture.flags)),
                    ("ecn", Column::U64(capture.ecn)),
                    ("reason", capture.reason.column()),
                ]),
            ));
        }
        tables
    }

    fn completions(&self, names: Vec<String>) -> Table {
        let rows = || {
            self.entries
                .iter()
                .enumerate()
                .flat_map(|(index, entry)| entry.completions.iter().map(move |c| (index, c)))
        };
        table([
            ("flow", Column::Name { codes: rows().map(|(i, _)| i as u32).collect(), names }),
            ("start_s", Column::F64(rows().map(|(_, c)| seconds(c.start)).collect())),
            ("bytes", Column::U64(rows().map(|(_, c)| c.bytes).collect())),
            ("duration_s", Column::F64(rows().map(|(_, c)| seconds(c.duration)).collect())),
        ])
    }

    fn probe_samples(&self) -> Table {
        let rows = || {
            self.probes
                .iter()
                .enumerate()
                .flat_map(|(index, state)| state.samples.iter().map(move |s| (index, s)))
        };
        let names = self.config.probes.iter().map(|probe| probe.id.clone()).collect();
        table([
            ("t", Column::F64(rows().map(|(_, s)| seconds(s.0)).collect())),
            ("probe", Column::Name { codes: rows().map(|(i, _)| i as u32).collect(), names }),
            ("delay_ms", Column::F64(rows().map(|(_, s)| ms(s.1 as f64)).collect())),
        ])
    }
}

pub(crate) fn table<const N: usize>(columns: [(&str, Column); N]) -> Table {
    Table { columns: columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect() }
}

fn cdf_table<'a>(
    key: &str,
    value: &str,
    names: &[String],
    histograms: impl Iterator<Item = &'a Histogram>,
) -> Table {
    let (mut codes, mut values, mut fractions) = (Vec::new(), Vec::new(), Vec::new());
    for (index, histogram) in histograms.enumerate() {
        for (time, fraction) in histogram.cdf() {
            codes.push(index as u32);
            values.push(ms(time));
            fractions.push(fraction);
        }
    }
    table([
        (key, Column::Name { codes, names: names.to_vec() }),
        (value, Column::F64(values)),
        ("fraction", Column::F64(fractions)),
    ])
}

fn effective(entry: &Entry) -> Effective {
    let config = entry.config;
    match &config.transport {
        Transport::Tcp(tcp) => Effective::Tcp(Box::new(EffectiveTcp {
            transport: "tcp",
            cc: EffectiveController {
                kind: tcp.cc.kind.clone(),
                params: Arc::clone(&entry.params),
                recovery: if entry.own_recovery { "own" } else { "prr" },
            },
            mss: tcp.mss,
            initial_window: tcp.initial_window,
            ecn: entry.ecn.name(),
            ack_every: tcp.ack_every,
            delack_ms: ms(tcp.delack_ns as f64),
            min_rto_ms: ms(tcp.min_rto_ns as f64),
            pacing: tcp.pacing,
            idle_restart: tcp.idle_restart,
            timestamps: tcp.timestamps,
            prr: tcp.prr,
            tlp: tcp.tlp,
            handshake: tcp.handshake,
            base_delay_ms: ms((config.delay_ns + config.reverse_delay_ns) as f64),
        })),
        Transport::Udp { payload_bytes } => {
            Effective::Udp { transport: "udp", payload_bytes: *payload_bytes }
        }
        Transport::Other(other) => Effective::Other(EffectiveOther {
            transport: other.transport.clone(),
            options: entry.transport.as_ref().map(|recipe| recipe.options()).unwrap_or_default(),
            cc: other.cc.as_ref().map(|cc| cc.kind.clone()),
            params: match (&entry.transport, &other.cc) {
                (_, Some(cc)) if entry.custom => cc.params.clone(),
                (Some(recipe), _) => recipe.params(),
                (None, _) => Map::new(),
            },
            base_delay_ms: ms((config.delay_ns + config.reverse_delay_ns) as f64),
        }),
    }
}

/// The parameters of a queue, defaults filled in.
fn queue_params(kind: &str, given: &Map<String, Value>) -> Map<String, Value> {
    let infos = dumbbell_queue::list();
    let known = infos.iter().find(|info| info.name == kind);
    let defaults = known.into_iter().flat_map(|info| &info.params);
    let mut params: Map<String, Value> =
        defaults.map(|info| (info.name.to_owned(), info.default.clone())).collect();
    params.extend(given.clone());
    params
}

/// Jain's fairness index; 1 for no or one flow.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}
