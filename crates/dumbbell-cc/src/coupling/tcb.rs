//! Sharing of TCP control blocks (RFC 9040): what other connections between the same hosts have learnt
//! is where a new one begins. Once begun, connections are independent.
//!
//! The RFC leaves open how values are merged (section 6.2) and how an ensemble's sums become values of a
//! new connection (section 7.1); both are options. Its round-trip time is shared with the controller
//! only: the transport measures its own in the handshake.

use std::collections::BTreeMap;

use super::CouplingInfo;
use super::window::{Id, Sharing};
use crate::{Ack, Controller, Nanos, ParamInfo, Params, SSTHRESH_INFINITE, Start};

pub(crate) const NAME: &str = "tcb";

pub(crate) fn info() -> CouplingInfo {
    CouplingInfo {
        name: NAME,
        summary: "shared control blocks: a connection begins with what others have learnt",
        source: "RFC 9040",
        shares: "window",
        options: vec![
            ParamInfo::choice(
                "sharing",
                &["both", "temporal", "ensemble"],
                "both",
                "temporal: from connections that have closed (RFC 9040 section 6); ensemble: from those that \
                 are open (section 7); both: from open ones if there are any",
            ),
            ParamInfo::new(
                "merge",
                "fraction",
                0.5,
                (0.0, 1.0),
                "weight of a closing connection's values in the cache, alpha of section 6.2: 1 keeps the \
                 newest. The first connection's values are taken as they are",
            ),
            ParamInfo::choice(
                "share",
                &["joined", "mean"],
                "joined",
                "ensemble: a new connection beside N has 1/(N + 1) of the sum; mean: 1/N of it",
            ),
            ParamInfo::flag(
                "make_room",
                false,
                "ensemble: the windows of the open connections shrink by what a new one gets (not in the RFC)",
            ),
            ParamInfo::flag("cwnd", true, "the congestion window is shared"),
            ParamInfo::flag("ssthresh", true, "the slow-start threshold is shared"),
            ParamInfo::new(
                "least_bytes",
                "bytes",
                0,
                (0.0, 1e15),
                "a closing connection that has delivered less is not cached (section 8: thresholds of short \
                 flows do harm)",
            ),
        ],
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    let sharing = params.choice("sharing");
    Box::new(Blocks {
        temporal: sharing != "ensemble",
        ensemble: sharing != "temporal",
        merge: params.number("merge"),
        mean: params.choice("share") == "mean",
        make_room: params.flag("make_room"),
        share_cwnd: params.flag("cwnd"),
        share_ssthresh: params.flag("ssthresh"),
        least_bytes: params.count("least_bytes"),
        open: BTreeMap::new(),
        cache: Cache::default(),
    })
}

/// Of connections that have closed: bytes, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cache {
    cwnd: Option<f64>,
    ssthresh: Option<f64>,
    srtt: Option<f64>,
}

/// What is known of an open connection.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    started: bool,
    cwnd: u64,
    ssthresh: u64,
    srtt: Nanos,
    delivered: u64,
    /// A window that the connection is to have from now on, to make room for another.
    reduced: Option<u64>,
}

struct Blocks {
    temporal: bool,
    ensemble: bool,
    merge: f64,
    mean: bool,
    make_room: bool,
    share_cwnd: bool,
    share_ssthresh: bool,
    least_bytes: u64,
    open: BTreeMap<Id, Block>,
    cache: Cache,
}

impl Blocks {
    fn note(&mut self, id: Id, inner: &dyn Controller) {
        if let Some(block) = self.open.get_mut(&id) {
            block.cwnd = inner.cwnd();
            block.ssthresh = inner.ssthresh();
        }
    }

    /// What a new connection gets of the open ones: window, threshold, round-trip time.
    fn ensemble_values(&self) -> Option<Cache> {
        let open = || self.open.values().filter(|block| block.started);
        let count = open().count();
        if count == 0 {
            return None;
        }
        let among = if self.mean { count } else { count + 1 } as f64;
        let sum = |value: fn(&Block) -> u64| open().map(|block| value(block) as f64).sum::<f64>();
        let thresholds: Vec<_> =
            open().map(|b| b.ssthresh).filter(|&bytes| bytes != SSTHRESH_INFINITE).collect();
        // A sum with an unknown threshold in it is none.
        let ssthresh = (thresholds.len() == count)
            .then(|| thresholds.iter().map(|&bytes| bytes as f64).sum::<f64>() / among);
        let srtt = open().map(|block| block.srtt).max().filter(|&srtt| srtt > 0);
        Some(Cache {
            cwnd: Some(sum(|block| block.cwnd) / among),
            ssthresh,
            srtt: srtt.map(|srtt| srtt as f64),
        })
    }

    /// Take from the open connections what the new one has got.
    fn reduce_open(&mut self, given: u64) {
        let sum: u64 = self.open.values().filter(|b| b.started).map(|block| block.cwnd).sum();
        let factor = (1.0 - given as f64 / sum.max(1) as f64).max(0.0);
        for block in self.open.values_mut().filter(|block| block.started) {
            let cwnd = (block.cwnd as f64 * factor) as u64;
            block.cwnd = cwnd;
            block.reduced = Some(cwnd);
        }
    }
}

impl Sharing for Blocks {
    fn add(&mut self, id: Id, _priority: f64) {
        self.open.insert(id, Block { ssthresh: SSTHRESH_INFINITE, ..Block::default() });
    }

    fn remove(&mut self, id: Id, inner: &dyn Controller) {
        let Some(block) = self.open.remove(&id) else { return };
        if !block.started || block.delivered < self.least_bytes {
            return;
        }
        let alpha = self.merge;
        let merge = |old: &mut Option<f64>, new: f64| {
            *old = Some(old.map_or(new, |old| (1.0 - alpha) * old + alpha * new));
        };
        merge(&mut self.cache.cwnd, inner.cwnd() as f64);
        if inner.ssthresh() != SSTHRESH_INFINITE {
            merge(&mut self.cache.ssthresh, inner.ssthresh() as f64);
        }
        if block.srtt > 0 {
            merge(&mut self.cache.srtt, block.srtt as f64);
        }
    }

    fn start(&mut self, id: Id, event: &Start, inner: &mut dyn Controller) {
        let open = if self.ensemble { self.ensemble_values() } else { None };
        let beside = open.is_some();
        let known = open.or_else(|| self.temporal.then_some(self.cache)).unwrap_or_default();
        inner
            .on_start(&Start { rtt: event.rtt.or(known.srtt.map(|srtt| srtt as Nanos)), ..*event });
        let cwnd = known.cwnd.filter(|_| self.share_cwnd).map_or(inner.cwnd(), |cwnd| cwnd as u64);
        let ssthresh = known
            .ssthresh
            .filter(|_| self.share_ssthresh)
            .map_or(inner.ssthresh(), |ssthresh| ssthresh as u64);
        inner.set_window(cwnd, ssthresh);
        if self.make_room && beside {
            self.reduce_open(inner.cwnd());
        }
        if let Some(block) = self.open.get_mut(&id) {
            block.started = true;
        }
        self.note(id, inner);
    }

    fn ack(&mut self, id: Id, ack: &Ack, inner: &mut dyn Controller) {
        if let Some(block) = self.open.get_mut(&id) {
            block.srtt = ack.srtt;
            block.delivered = ack.delivered;
            if let Some(cwnd) = block.reduced.take() {
                // Below its threshold it would be in slow start and take the room back.
                let cwnd = cwnd.min(inner.cwnd());
                inner.set_window(cwnd, inner.ssthresh().min(cwnd));
            }
        }
        inner.on_ack(ack);
        self.note(id, inner);
    }
}
