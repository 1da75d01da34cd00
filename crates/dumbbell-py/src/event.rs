//! Events as a controller written in Python sees them: the fields of `dumbbell_cc`'s events, read-only.
//! Times are integers in nanoseconds, sizes in payload bytes, rates in payload bytes per second.

use dumbbell_cc::{CaState, CongestionKind, Nanos};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A frozen class around an event, with a getter for each field named, and further methods after `;`.
macro_rules! event {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }
        $($method:tt)*
    ) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "dumbbell._core")]
        pub(crate) struct $name(pub(crate) dumbbell_cc::$name);

        #[pymethods]
        impl $name {
            $(
                $(#[$field_doc])*
                #[getter]
                fn $field(&self) -> $type {
                    self.0.$field
                }
            )*

            fn __repr__(&self) -> String {
                format!("{:?}", self.0)
            }

            $($method)*
        }
    };
}

event! {
    /// The connection is established and may send.
    Start {
        now: Nanos,
        /// Largest payload of a segment, bytes.
        mss: u32,
        /// Initial window in bytes (RFC 6928).
        initial_window: u64,
        /// Round-trip time of the handshake, None if it was retransmitted.
        rtt: Option<Nanos>,
    }

    /// How ECN is used: "off", "classic", "ce-state", "accurate", "l4s" or "sce".
    #[getter]
    fn ecn(&self) -> &'static str {
        self.0.ecn.name()
    }
}

event! {
    /// One processed ACK.
    Ack {
        now: Nanos,
        mss: u32,
        /// Bytes delivered for the first time by this ACK, cumulatively or by SACK.
        acked: u64,
        /// Bytes marked lost while this ACK was processed.
        lost: u64,
        /// Bytes that this ACK reports as CE-marked: exact with counters, all that it delivers if it
        /// carries ECE otherwise.
        ce: u64,
        /// Packets that this ACK reports as CE-marked, likewise.
        ce_packets: u64,
        /// Bytes that this ACK delivers under the ESCE flag: they carried SCE.
        sce: u64,
        /// Change of the rate that routers ask for in XCP's header, bytes per second.
        feedback: f64,
        /// ECN does not work on this path; data is sent Not-ECT from now on.
        ecn_failed: bool,
        /// The ACK reports CE: it carries ECE, or its counters have grown.
        ece: bool,
        /// RTT sample of this ACK, or None.
        rtt: Option<Nanos>,
        /// Smoothed RTT, 0 before the first sample.
        srtt: Nanos,
        /// Windowed minimum RTT, 0 before the first sample.
        min_rtt: Nanos,
        /// Bytes delivered over the connection's life, this ACK included.
        delivered: u64,
        /// Bytes marked lost over the connection's life.
        lost_total: u64,
        /// Bytes in flight before this ACK was processed (RFC 6675 pipe).
        inflight_before: u64,
        /// Bytes in flight after this ACK was processed.
        inflight: u64,
        /// First unacknowledged byte, after this ACK.
        snd_una: u64,
        /// Next byte to be sent for the first time.
        snd_nxt: u64,
        /// Packet-timed round trips so far.
        round: u64,
        /// This ACK starts a round trip.
        round_start: bool,
        /// The window, not the application, limited what was sent in the last round.
        cwnd_limited: bool,
        /// The connection is application limited now.
        app_limited: bool,
        /// The ACK moves `snd_una`.
        advances: bool,
        /// The receiver may have delayed this ACK for its own reasons.
        maybe_delayed: bool,
    }

    /// Loss-recovery state after this ACK: "open", "disorder", "cwr", "recovery" or "loss".
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        match self.0.state {
            CaState::Open => intern!(py, "open"),
            CaState::Disorder => intern!(py, "disorder"),
            CaState::Cwr => intern!(py, "cwr"),
            CaState::Recovery => intern!(py, "recovery"),
            CaState::Loss => intern!(py, "loss"),
        }
    }

    /// Delivery rate in bytes per second, None if this ACK gave no valid sample.
    #[getter]
    fn delivery_rate(&self) -> Option<f64> {
        self.0.rate.rate()
    }

    /// The delivery-rate sample itself.
    #[getter]
    fn rate_sample(&self) -> RateSample {
        RateSample(self.0.rate)
    }
}

event! {
    /// Delivery-rate sample of one ACK (draft-cheng-iccrg-delivery-rate-estimation).
    RateSample {
        /// Bytes delivered over `interval`.
        delivered: u64,
        /// Nanoseconds; 0 if this ACK gave no valid sample.
        interval: Nanos,
        /// The connection's `delivered` when the newest segment acked here was sent.
        prior_delivered: u64,
        /// This ACK newly delivered at least one segment.
        has_data: bool,
        /// The newest acked segment was sent while the application limited the flow.
        app_limited: bool,
        /// Bytes in flight just after the newest acked segment was sent.
        tx_in_flight: u64,
        /// Bytes marked lost between sending and acking that segment.
        lost: u64,
    }
}

event! {
    /// A congestion event, at most once a round trip: the window has to be cut.
    Congestion {
        now: Nanos,
        mss: u32,
        /// Bytes in flight when the event was detected.
        inflight: u64,
        /// Bytes marked lost by the ACK that started the event.
        lost: u64,
        srtt: Nanos,
        /// Bytes delivered over the connection's life.
        delivered: u64,
        /// Bytes delivered by the ACK that started the event.
        acked: u64,
    }

    /// "loss" or "ecn".
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        match self.0.kind {
            CongestionKind::Loss => intern!(py, "loss"),
            CongestionKind::Ecn => intern!(py, "ecn"),
        }
    }
}

event! {
    /// A retransmission timeout.
    Rto {
        now: Nanos,
        mss: u32,
        /// Bytes still counted as in flight after the timeout marked segments lost.
        inflight: u64,
        /// First timeout of this data: cut `ssthresh` (RFC 5681 eq. 4).
        first: bool,
        delivered: u64,
    }
}

event! {
    /// A congestion event or timeout that proved spurious.
    Undo {
        now: Nanos,
        mss: u32,
        /// It was a timeout, not a fast recovery.
        timeout: bool,
    }
}

event! {
    /// Sending starts with nothing in flight.
    IdleRestart {
        now: Nanos,
        mss: u32,
        /// Nanoseconds since the last transmission.
        idle: Nanos,
        app_limited: bool,
        /// Window to restart from (RFC 5681 section 4.1), None if the transport asks for no restart.
        restart_window: Option<u64>,
        delivered: u64,
    }
}
