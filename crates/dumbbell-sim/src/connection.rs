//! A connection: both TCP ends in one slot, with its handshake and timers.

use dumbbell_cc::{Controller, EcnMode};
use dumbbell_transport::tcp::{
    HEADER_BYTES, Receiver, ReceiverConfig, Sender, SenderConfig, TIMESTAMP_OPTION_BYTES, Window,
};
use dumbbell_transport::{Kind, Packet};

use crate::config::{Rwnd, Tcp};

/// First retransmission of a SYN (RFC 6298 rule 2.1).
const SYN_TIMEOUT: u64 = 1_000_000_000;
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
        }
    }

    /// The SYN to send now, first or repeated; `None` if the handshake is not waiting for one.
    pub(crate) fn syn(&mut self, now: u64, slot: u32, timestamps: bool) -> Option<Packet> {
        let (first, tries) = match self.phase {
            Phase::Closed => (now, 0),
            Phase::SynSent { first, tries, due } if due <= now => (first, tries),
            _ => return None,
        };
        let due = now + (SYN_TIMEOUT << tries.min(6));
        self.phase = Phase::SynSent { first, tries: tries + 1, due };
        Some(self.control(Kind::Syn, now, slot, timestamps))
    }

    pub(crate) fn control(&self, kind: Kind, now: u64, slot: u32, timestamps: bool) -> Packet {
        let header = if timestamps { HEADER_BYTES } else { HEADER_BYTES - TIMESTAMP_OPTION_BYTES };
        Packet {
            flow: slot,
            generation: self.generation,
            kind,
            ip_bytes: header + SYN_OPTION_BYTES,
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
