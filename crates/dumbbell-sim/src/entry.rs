//! A flow of the scenario: its route, its traffic source and its counters. It owns one connection,
//! or many one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use dumbbell_cc::{EcnMode, Recipe};
use dumbbell_transport::registry;
use dumbbell_transport::tcp::SenderStats;
use serde_json::{Map, Value};

use crate::config::{Flow, Tcp, Transport};
use crate::coupling::Membership;
use crate::engine::Direction;
use crate::histogram::Histogram;
use crate::random::Stream;

/// One finished transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) duration: u64,
}

pub(crate) struct Entry<'a> {
    pub(crate) config: &'a Flow,
    /// Its way, if it has one of its own.
    pub(crate) way: u32,
    /// Its controller is not in the registry, and can raise errors.
    pub(crate) custom: bool,
    /// How to make a controller of TCP that is in the registry.
    pub(crate) recipe: Option<Arc<Recipe>>,
    /// Start of the random streams of its controllers.
    pub(crate) cc_seed: u64,
    pub(crate) params: Arc<Map<String, Value>>,
    /// How to make both ends, of a transport other than TCP.
    pub(crate) transport: Option<Arc<registry::Recipe>>,
    pub(crate) membership: Option<Membership>,
    /// The controller shapes its window in recovery itself.
    pub(crate) own_recovery: bool,
    /// How its connections use ECN.
    pub(crate) ecn: EcnMode,

    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) marked_arrived: u64,
    pub(crate) dropped: u64,
    pub(crate) acks_sent: u64,
    pub(crate) acks_arrived: u64,
    pub(crate) acks_dropped: u64,
    pub(crate) delivered_bytes: u64,
    /// Of connections that have ended.
    pub(crate) ended: SenderStats,
    /// Of connections that have ended: how often their windows grew.
    pub(crate) ended_increases: u64,

    pub(crate) warmup: u64,
    pub(crate) rtt: Histogram,
    /// In-order bytes at the start and end of the counted window.
    pub(crate) window_bytes: (u64, Option<u64>),
    pub(crate) cwnd_sum: f64,
    pub(crate) cwnd_samples: u64,
    pub(crate) cwnd_max: f64,
    pub(crate) series_bytes: u64,

    pub(crate) completions: Vec<Completion>,
    /// Transfers of its users that ended.
    pub(crate) completed: u64,
    pub(crate) connections: u64,
    /// Slot of the flow's connection, or of the newest.
    pub(crate) slot: Option<u32>,
    /// Slots of the connections that are open.
    pub(crate) open: Vec<u32>,
    /// Slots that are free, and since when.
    pub(crate) free: VecDeque<(u64, u32)>,
    /// Its users.
    pub(crate) crowd: Option<u32>,

    pub(crate) source: Source,
}

/// State of the traffic source.
pub(crate) struct Source {
    pub(crate) stream: Stream,
    /// Written before the connection was open.
    pub(crate) pending: u64,
    pub(crate) stopped: bool,
    pub(crate) on: bool,
    pub(crate) phase_end: u64,
    pub(crate) next_write: u64,
    pub(crate) count: u64,
    /// Request-response: number and time of the request in progress, and the last one served.
    pub(crate) request: u64,
    pub(crate) request_sent: u64,
    pub(crate) request_started: u64,
    pub(crate) served: u64,
    /// When the client asks again; `u64::MAX` while it waits for an answer.
    pub(crate) ask_at: u64,
    /// Size of the answer in progress.
    pub(crate) response: u64,
}

impl Source {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            pending: 0,
            stopped: false,
            on: false,
            phase_end: 0,
            next_write: u64::MAX,
            count: 0,
            request: 0,
            request_sent: 0,
            request_started: 0,
            served: 0,
            ask_at: u64::MAX,
            response: 0,
        }
    }
}

impl Entry<'_> {
    pub(crate) fn id(&self) -> &str {
        &self.config.id
    }

    pub(crate) fn cc_name(&self) -> &str {
        match &self.config.transport {
            Transport::Tcp(tcp) => &tcp.cc.kind,
            Transport::Udp { .. } => "udp",
            Transport::Other(other) => &other.label,
        }
    }

    pub(crate) fn tcp(&self) -> Option<&Tcp> {
        match &self.config.transport {
            Transport::Tcp(tcp) => Some(tcp),
            Transport::Udp { .. } | Transport::Other(_) => None,
        }
    }

    #[inline]
    pub(crate) fn record_rtt(&mut self, now: u64, rtt: u64) {
        if now >= self.warmup {
            self.rtt.add(rtt);
        }
    }

    pub(crate) fn count_drop(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.dropped += 1,
            Direction::Reverse => self.acks_dropped += 1,
        }
    }

    pub(crate) fn count_sent(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.sent += 1,
            Direction::Reverse => self.acks_sent += 1,
        }
    }

    /// What the application has written when the connection opens.
    pub(crate) fn first_write(&mut self) -> u64 {
        std::mem::take(&mut self.source.pending)
    }

    /// Seconds over which goodput counts.
    pub(crate) fn window(&self, end: u64) -> (u64, u64) {
        let from = self.config.start_ns.max(self.warmup);
        (from, self.config.stop_ns.min(end).max(from))
    }
}
