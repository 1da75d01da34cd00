//! A connection: both TCP ends in one slot, with its handshake and timers.

use dumbbell_cc::{Controller, EcnMode, SSTHRESH_INFINITE};
use dumbbell_transport::flow::Snapshot;
use dumbbell_transport::tcp::{
    Receiver, ReceiverConfig, Sender, SenderConfig, Window, header_bytes,
};
use dumbbell_transport::{Kind, Packet};

use crate::config::{Rwnd, Tcp};

/// [`Connection::user`] of a connection that belongs to no user.
pub(crate) const NO_USER: u32 = u32::MAX;
/// Options of a SYN beyond the timestamps: MSS, SACK permitted, window scale.
const SYN_OPTION_BYTES: u16 = 8;

/// The lazy timers of a connection; each has at most one live entry in the timer heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionTimer {
    Sender = 0,
    Pacing = 1,
    DelayedAck = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Closed,
    SynSent {
        first: u64,
        tries: u32,
        due: u64,
    },
    Established,
}

pub(crate) struct Connection {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) entry: u32,
    pub(crate) generation: u16,
    pub(crate) phase: Phase,
    /// Time of the live heap entry of each timer, `u64::MAX` if none.
    pub(crate) scheduled: [u64; 3],
    pub(crate) started: u64,
    /// Bytes after which the transfer is complete; 0 for none.
    pub(crate) size: u64,
    pub(crate) completed: bool,
    /// Send time of the newest data that arrived: order check.
    pub(crate) last_arrival: u64,
    /// First timeout of a SYN.
    syn_timeout: u64,
    /// Place among the open connections of its flow.
    pub(crate) open_index: u32,
    /// The user whose transfer it is.
    pub(crate) user: u32,
    pub(crate) established: u64,
    /// How often the window has grown, and what it was; counted for users.
    pub(crate) increases: u64,
    cwnd: u64,
    /// What it did when last looked at, recovery apart.
    pub(crate) activity: Activity,
}

/// What a user's connection does, as the study of SP 500-282 tells it apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Slow start before the first loss.
    #[default]
    SlowStart,
    /// Growth as Reno's.
    Normal,
    /// The growth that sets an algorithm apart.
    Alternate,
}

impl Connection {
    pub(crate) fn new(
        config: &Tcp,
        ecn: EcnMode,
        cc: Box<dyn Controller>,
        slot: u32,
        generation: u16,
        entry: u32,
        dscp: u8,
    ) -> Self {
        let mss = config.mss as u16;
        let receiver = ReceiverConfig {
            flow: slot,
            generation,
            dscp,
            mss,
            ack_every: config.ack_every,
            delack: config.delack_ns,
            window: match config.rwnd {
                Rwnd::Unlimited => Window::Unlimited,
                Rwnd::Fixed { bytes } => Window::Fixed(bytes),
                Rwnd::Auto { initial_bytes, max_bytes } => {
                    Window::Auto { initial: initial_bytes, max: max_bytes }
                }
            },
            timestamps: config.timestamps,
            ecn,
            feedback: cc.requested_rate().is_some(),
        };
        let limited = !matches!(config.rwnd, Rwnd::Unlimited);
        let sender = SenderConfig {
            flow: slot,
            generation,
            dscp,
            mss,
            initial_window: config.initial_window,
            ecn,
            timestamps: config.timestamps,
            prr: config.prr,
            tlp: config.tlp,
            idle_restart: config.idle_restart,
            pacing: config.pacing,
            max_rate: config.max_rate_bps.map_or(f64::INFINITY, |bps| {
                let header = header_bytes(config.timestamps);
                bps as f64 / 8.0 * f64::from(mss) / f64::from(mss + header)
            }),
            min_rto: config.min_rto_ns,
            window_scale: limited.then(|| receiver.window_scale()),
            initial_rwnd: match config.rwnd {
                Rwnd::Unlimited => u64::MAX,
                Rwnd::Fixed { bytes } => bytes,
                Rwnd::Auto { initial_bytes, .. } => initial_bytes,
            },
        };
        Self {
            sender: Sender::new(sender, cc),
            receiver: Receiver::new(receiver),
            entry,
            generation,
            phase: Phase::Closed,
            scheduled: [u64::MAX; 3],
            started: 0,
            size: 0,
            completed: false,
            last_arrival: 0,
            syn_timeout: config.syn_timeout_ns,
            open_index: 0,
            user: NO_USER,
            established: 0,
            increases: 0,
            cwnd: 0,
            activity: Activity::default(),
        }
    }

    /// After an ACK.
    #[inline]
    pub(crate) fn count_increase(&mut self) {
        let cwnd = self.sender.controller().cwnd();
        self.increases += u64::from(cwnd > self.cwnd);
        self.cwnd = cwnd;
    }

    /// What is recorded of it; `mss` in bytes.
    pub(crate) fn snapshot(&self, mss: u32) -> Snapshot {
        let cc = self.sender.controller();
        let ssthresh = match cc.ssthresh() {
            SSTHRESH_INFINITE => f64::NAN,
            bytes => bytes as f64 / f64::from(mss),
        };
        Snapshot {
            window: self.sender.window() as f64,
            ssthresh,
            in_flight: self.sender.in_flight() as f64,
            rate: cc.pacing_rate().map_or(f64::NAN, |rate| rate * 8.0),
            srtt: self.sender.srtt(),
            phase: cc.phase(),
        }
    }

    /// What it does now. A recovery counts as what it interrupts.
    pub(crate) fn look(&mut self) -> Activity {
        let stats = self.sender.stats();
        let cc = self.sender.controller();
        match cc.phase() {
            "recovery" | "cwr" => {
                if self.activity == Activity::SlowStart {
                    self.activity = Activity::Normal;
                }
            }
            "alternate" => self.activity = Activity::Alternate,
            _ if cc.cwnd() < cc.ssthresh() && stats.recoveries + stats.timeouts == 0 => {
                self.activity = Activity::SlowStart;
            }
            _ => self.activity = Activity::Normal,
        }
        self.activity
    }

    /// All SYNs that are allowed were sent and the last one has timed out.
    pub(crate) fn has_tried(&self, most: u32) -> bool {
        matches!(self.phase, Phase::SynSent { tries, .. } if tries >= most)
    }

    /// The SYN to send now, first or repeated; `None` if the handshake is not waiting for one.
    pub(crate) fn syn(&mut self, now: u64, slot: u32, timestamps: bool) -> Option<Packet> {
        let (first, tries) = match self.phase {
            Phase::Closed => (now, 0),
            Phase::SynSent { first, tries, due } if due <= now => (first, tries),
            _ => return None,
        };
        let due = now + (self.syn_timeout << tries.min(6));
        self.phase = Phase::SynSent { first, tries: tries + 1, due };
        Some(self.control(Kind::Syn, now, slot, timestamps))
    }

    pub(crate) fn control(&self, kind: Kind, now: u64, slot: u32, timestamps: bool) -> Packet {
        Packet {
            flow: slot,
            generation: self.generation,
            kind,
            ip_bytes: header_bytes(timestamps) + SYN_OPTION_BYTES,
            timestamp: now,
            ..Packet::default()
        }
    }

    /// When the given timer is due.
    #[inline]
    pub(crate) fn deadline(&self, timer: ConnectionTimer) -> u64 {
        match (self.phase, timer) {
            (Phase::Closed, _) => u64::MAX,
            (Phase::SynSent { due, .. }, ConnectionTimer::Sender) => due,
            (Phase::SynSent { .. }, _) => u64::MAX,
            (Phase::Established, ConnectionTimer::Sender) => self.sender.timer_deadline(),
            (Phase::Established, ConnectionTimer::Pacing) => self.sender.pacing_deadline(),
            (Phase::Established, ConnectionTimer::DelayedAck) => self.receiver.next_timeout(),
        }
    }
}
