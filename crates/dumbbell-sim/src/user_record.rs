//! What is recorded of users: samples of what they do, their means over periods, and sums over the
//! transfers that ended. Nothing here grows with the length of a run unless the samples are wanted.

use crate::config::UserRecord;
use crate::connection::{Activity, NO_USER, Phase};
use crate::engine::{Engine, TimerKind, timer_id};
use crate::output::{Column, Table};
use crate::record::{seconds, table};

/// Events of a group's users.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) started: u64,
    pub(crate) connected: u64,
    pub(crate) completed: u64,
    /// Connections that no SYN opened.
    pub(crate) failed: u64,
    pub(crate) gave_up: u64,
    pub(crate) syns: u64,
    /// Packets: sent (again), and arrived at receivers.
    sent: u64,
    retransmits: u64,
    arrived: u64,
    /// How often a window has grown.
    increases: u64,
}

const COUNTS: usize = 10;

impl Counts {
    const NAMES: [&str; COUNTS] = [
        "started",
        "connected",
        "completed",
        "failed",
        "gave_up",
        "syns",
        "sent",
        "retransmits",
        "arrived",
        "cwnd_increases",
    ];

    fn values(&self) -> [u64; COUNTS] {
        [
            self.started,
            self.connected,
            self.completed,
            self.failed,
            self.gave_up,
            self.syns,
            self.sent,
            self.retransmits,
            self.arrived,
            self.increases,
        ]
    }
}

/// A group at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    users: u64,
    connecting: u64,
    slow_start: u64,
    normal: u64,
    alternate: u64,
    /// Sum over the active connections, segments.
    cwnd: u64,
    /// Sums over the active connections that have a round-trip time, and their number.
    srtt: f64,
    queueing: f64,
    measured: u64,
}

const STATES: usize = 8;

impl Sample {
    const NAMES: [&str; STATES] = [
        "thinking",
        "connecting",
        "slow_start",
        "normal",
        "alternate",
        "cwnd",
        "srtt_ms",
        "queueing_ms",
    ];

    /// As in `NAMES`; `None` where no connection is active.
    fn values(&self) -> [Option<f64>; STATES] {
        let active = self.slow_start + self.normal + self.alternate;
        let mean = |sum: f64| (self.measured > 0).then(|| sum / self.measured as f64 / 1e6);
        [
            Some((self.users - self.connecting - active) as f64),
            Some(self.connecting as f64),
            Some(self.slow_start as f64),
            Some(self.normal as f64),
            Some(self.alternate as f64),
            Some(self.cwnd as f64),
            mean(self.srtt),
            mean(self.queueing),
        ]
    }
}

/// Sums of samples and events over a period.
#[derive(Clone, Copy, Debug, Default)]
struct PeriodSums {
    states: [(f64, u64); STATES],
    counts: [u64; COUNTS],
}

/// Sums over transfers that ended.
#[derive(Clone, Copy, Debug, Default)]
struct Transfers {
    count: u64,
    bytes: u64,
    seconds: f64,
    goodput: f64,
    goodput_squared: f64,
}

#[derive(Debug, Default)]
struct Series {
    t: Vec<f64>,
    group: Vec<u32>,
    states: [Vec<f64>; STATES],
    counts: [Vec<u64>; COUNTS],
}

#[derive(Debug)]
pub(crate) struct UserRecorder {
    config: UserRecord,
    counts: Vec<Counts>,
    /// What the counts were at the last sample.
    last: Vec<Counts>,
    /// By period, then group.
    sums: Vec<PeriodSums>,
    /// By period, group, kind of file, class of path.
    transfers: Vec<Transfers>,
    series: Series,
}

impl UserRecorder {
    pub(crate) fn new(config: &UserRecord) -> Self {
        let groups = config.groups.len();
        let cells = groups * config.files.len() * config.classes.len();
        Self {
            config: config.clone(),
            counts: vec![Counts::default(); groups],
            last: vec![Counts::default(); groups],
            sums: vec![PeriodSums::default(); config.periods.len() * groups],
            transfers: vec![Transfers::default(); config.periods.len() * cells],
            series: Series::default(),
        }
    }

    pub(crate) fn counts(&mut self, group: usize) -> &mut Counts {
        &mut self.counts[group]
    }

    fn cell(&self, period: usize, [group, file, class]: [usize; 3]) -> usize {
        let config = &self.config;
        ((period * config.groups.len() + group) * config.files.len() + file) * config.classes.len()
            + class
    }

    /// A transfer of a group, kind of file and class of path has ended.
    pub(crate) fn on_transfer(&mut self, now: u64, cell: [usize; 3], bytes: u64, duration: u64) {
        let goodput = bytes as f64 * 8e9 / duration.max(1) as f64;
        for period in 0..self.config.periods.len() {
            let span = &self.config.periods[period];
            if !(span.from_ns..span.to_ns).contains(&now) {
                continue;
            }
            let cell = self.cell(period, cell);
            let transfers = &mut self.transfers[cell];
            transfers.count += 1;
            transfers.bytes += bytes;
            transfers.seconds += seconds(duration);
            transfers.goodput += goodput;
            transfers.goodput_squared += goodput * goodput;
        }
    }

    fn add_sample(&mut self, now: u64, samples: &[Sample]) {
        for (group, sample) in samples.iter().enumerate() {
            let states = sample.values();
            let before = std::mem::replace(&mut self.last[group], self.counts[group]).values();
            let after = self.counts[group].values();
            let events: [u64; COUNTS] = std::array::from_fn(|i| after[i] - before[i]);
            for (period, span) in self.config.periods.iter().enumerate() {
                // A sample tells of the interval before it.
                if now <= span.from_ns || now > span.to_ns {
                    continue;
                }
                let sums = &mut self.sums[period * samples.len() + group];
                for (sum, value) in sums.states.iter_mut().zip(states) {
                    if let Some(value) = value {
                        sum.0 += value;
                        sum.1 += 1;
                    }
                }
                for (sum, value) in sums.counts.iter_mut().zip(events) {
                    *sum += value;
                }
            }
            if self.config.series {
                self.series.t.push(seconds(now));
                self.series.group.push(group as u32);
                for (column, value) in self.series.states.iter_mut().zip(states) {
                    column.push(value.unwrap_or(f64::NAN));
                }
                for (column, value) in self.series.counts.iter_mut().zip(events) {
                    column.push(value);
                }
            }
        }
    }

    fn names(&self, codes: Vec<u32>, names: &[String]) -> Column {
        Column::Name { codes, names: names.to_vec() }
    }

    /// Tables of the result.
    pub(crate) fn tables(mut self) -> Vec<(&'static str, Table)> {
        let series = std::mem::take(&mut self.series);
        vec![
            ("user_periods", self.period_table()),
            ("user_series", self.series_table(series)),
            ("transfers", self.transfer_table()),
        ]
    }

    fn period_names(&self) -> Vec<String> {
        self.config.periods.iter().map(|period| period.name.clone()).collect()
    }

    fn period_table(&self) -> Table {
        let groups = self.config.groups.len();
        let rows = 0..self.sums.len() as u32;
        let mut columns = vec![
            (
                "period".to_owned(),
                self.names(
                    rows.clone().map(|row| row / groups as u32).collect(),
                    &self.period_names(),
                ),
            ),
            (
                "group".to_owned(),
                self.names(rows.map(|row| row % groups as u32).collect(), &self.config.groups),
            ),
        ];
        for (index, name) in Sample::NAMES.into_iter().enumerate() {
            let mean = |sums: &PeriodSums| {
                let (sum, count) = sums.states[index];
                if count > 0 { sum / count as f64 } else { f64::NAN }
            };
            columns.push((name.to_owned(), Column::F64(self.sums.iter().map(mean).collect())));
        }
        for (index, name) in Counts::NAMES.into_iter().enumerate() {
            let column = self.sums.iter().map(|sums| sums.counts[index]).collect();
            columns.push((name.to_owned(), Column::U64(column)));
        }
        Table { columns }
    }

    fn series_table(&self, series: Series) -> Table {
        let mut columns = vec![
            ("t".to_owned(), Column::F64(series.t)),
            ("group".to_owned(), self.names(series.group, &self.config.groups)),
        ];
        for (name, column) in Sample::NAMES.into_iter().zip(series.states) {
            columns.push((name.to_owned(), Column::F64(column)));
        }
        for (name, column) in Counts::NAMES.into_iter().zip(series.counts) {
            columns.push((name.to_owned(), Column::U64(column)));
        }
        Table { columns }
    }

    fn transfer_table(&self) -> Table {
        let config = &self.config;
        let (files, classes) = (config.files.len(), config.classes.len());
        let rows: Vec<(usize, &Transfers)> = self
            .transfers
            .iter()
            .enumerate()
            .filter(|(_, transfers)| transfers.count > 0)
            .collect();
        let codes = |divide: usize, modulo: usize| {
            rows.iter().map(|(row, _)| (row / divide % modulo) as u32).collect::<Vec<u32>>()
        };
        let reals = |of: fn(&Transfers) -> f64| {
            Column::F64(rows.iter().map(|(_, transfers)| of(transfers)).collect())
        };
        let counts = |of: fn(&Transfers) -> u64| {
            Column::U64(rows.iter().map(|(_, transfers)| of(transfers)).collect())
        };
        let groups = config.groups.len();
        let period = codes(classes * files * groups, config.periods.len());
        table([
            ("period", self.names(period, &self.period_names())),
            ("group", self.names(codes(classes * files, groups), &config.groups)),
            ("file", self.names(codes(classes, files), &config.files)),
            ("class", self.names(codes(1, classes), &config.classes)),
            ("count", counts(|transfers| transfers.count)),
            ("bytes", counts(|transfers| transfers.bytes)),
            ("duration_s", reals(|transfers| transfers.seconds)),
            ("goodput_bps", reals(|transfers| transfers.goodput)),
            ("goodput_bps_squared", reals(|transfers| transfers.goodput_squared)),
        ])
    }
}

impl Engine<'_> {
    /// A sample of all users.
    pub(crate) fn on_user_tick(&mut self) {
        let now = self.now;
        let Some(mut recorder) = self.user_recorder.take() else { return };
        let mut samples = vec![Sample::default(); recorder.counts.len()];
        for counts in &mut recorder.counts {
            (counts.sent, counts.retransmits, counts.arrived, counts.increases) = (0, 0, 0, 0);
        }
        for crowd in &self.crowds {
            let entry = &self.entries[crowd.entry as usize];
            let counts = &mut recorder.counts[crowd.group()];
            counts.sent += entry.ended.sent;
            counts.retransmits += entry.ended.retransmits;
            counts.arrived += entry.arrived;
            counts.increases += entry.ended_increases;
            samples[crowd.group()].users += crowd.count();
        }
        for (slot, connection) in self.connections.iter_mut().enumerate() {
            if connection.user == NO_USER || connection.phase == Phase::Closed {
                continue;
            }
            let Some(crowd) = self.entries[connection.entry as usize].crowd else { continue };
            let group = self.crowds[crowd as usize].group();
            let sample = &mut samples[group];
            let stats = connection.sender.stats();
            recorder.counts[group].sent += stats.sent;
            recorder.counts[group].retransmits += stats.retransmits;
            recorder.counts[group].increases += connection.increases;
            if matches!(connection.phase, Phase::SynSent { .. }) {
                sample.connecting += 1;
                continue;
            }
            match connection.look() {
                Activity::SlowStart => sample.slow_start += 1,
                Activity::Normal => sample.normal += 1,
                Activity::Alternate => sample.alternate += 1,
            }
            sample.cwnd += connection.sender.window();
            let srtt = connection.sender.srtt();
            if srtt > 0 {
                let base = self.ways[self.places[slot].way as usize].rtt;
                sample.srtt += srtt as f64;
                sample.queueing += srtt.saturating_sub(base) as f64;
                sample.measured += 1;
            }
        }
        recorder.add_sample(now, &samples);
        self.timers.push(now + recorder.config.interval_ns, timer_id(TimerKind::UserTick, 0));
        self.user_recorder = Some(recorder);
    }
}
