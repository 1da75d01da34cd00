//! From configuration to engine: links, pipes, routes, sources, timers.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dumbbell_cc::{BuildError, EcnMode, Recipe, RecoveryStyle};
use dumbbell_transport::registry::{self, ControllerChoice, Given};
use serde_json::{Map, Value};

use crate::capacity::{Trace, Transmitter};
use crate::config::{
    self, Capacity, Config, Controller, Flow, Link as LinkConfig, Loss, Probe, Traffic, Transport,
};
use crate::engine::{Engine, Hop, Line, PipeEnd, Route, TimerKind, Way, timer_id};
use crate::entry::{Entry, Source};
use crate::histogram::Histogram;
use crate::impairment::{Impairment, LossProcess};
use crate::link::{ComputedFifo, Discipline, Link, Server, StoredQueue};
use crate::pipe::Pipe;
use crate::probe::ProbeState;
use crate::random::{Stream, derive_seed};
use crate::run::{CustomControllers, RunError};
use crate::users::Crowd;

/// Lines that routes share.
#[derive(Default)]
struct Lines {
    /// Of last legs, by last link, delay, and whether the leg loses packets.
    legs: BTreeMap<(Option<usize>, u64, bool), u32>,
    /// Behind a link for routes that add a delay, by both.
    delayed: BTreeMap<(usize, u64), u32>,
}

/// A checked controller, and its parameters with the defaults filled in.
struct Known {
    recipe: Arc<Recipe>,
    params: Arc<Map<String, Value>>,
}

/// Controllers met so far, by kind and parameters as written, so that flows of a kind share them.
#[derive(Default)]
struct Recipes(BTreeMap<(String, String), Known>);

impl Recipes {
    fn of(&mut self, cc: &Controller) -> Result<&Known, BuildError> {
        let key = (cc.kind.clone(), Value::Object(cc.params.clone()).to_string());
        Ok(match self.0.entry(key) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(slot) => {
                let recipe = Recipe::new(&cc.kind, &cc.params)?;
                let params = Arc::new(recipe.params());
                slot.insert(Known { recipe: Arc::new(recipe), params })
            }
        })
    }
}

impl<'a> Engine<'a> {
    /// # Errors
    /// A queue or controller that cannot be built from its parameters.
    pub(crate) fn build(
        config: &'a Config,
        custom: &'a dyn CustomControllers,
    ) -> Result<Self, RunError> {
        let mut engine = Self::new(config, custom);
        for link in &config.links {
            let built = build_link(config, link)?;
            let ordered = !built.impairment.as_ref().is_some_and(|i| i.reorders());
            engine.lines.push(Line { pipe: Pipe::new(ordered), end: PipeEnd::Link, delay: 0 });
            engine.links.push(built);
        }
        // Room for one connection each, so that growing never holds two copies.
        engine.entries.reserve_exact(config.flows.len());
        engine.connections.reserve_exact(config.flows.len());
        let mut lines = Lines::default();
        let mut recipes = Recipes::default();
        for path in &config.paths {
            engine.build_way(&mut lines, [&path.route, &path.reverse_route], [0, 0], None);
        }
        for (index, flow) in config.flows.iter().enumerate() {
            let mut entry = engine.build_entry(flow, &mut lines, &mut recipes)?;
            if let Traffic::Users(users) = &flow.traffic {
                entry.crowd = Some(engine.crowds.len() as u32);
                engine.crowds.push(Crowd::new(users, index as u32));
            }
            engine.entries.push(entry);
        }
        for probe in &config.probes {
            let state = engine.build_probe(probe, &mut lines);
            engine.probes.push(state);
        }
        engine.build_couplings()?;
        engine.schedule_start();
        Ok(engine)
    }

    fn schedule_start(&mut self) {
        let mut change = 0;
        for link in &self.config.links {
            for at in &link.changes {
                self.timers.push(at.at_ns, timer_id(TimerKind::LinkChange, change));
                change += 1;
            }
        }
        for (index, flow) in self.config.flows.iter().enumerate() {
            let index = index as u32;
            self.timers.push(flow.start_ns, timer_id(TimerKind::Source, index));
            let (from, to) = self.entries[index as usize].window(self.end);
            self.timers.push(from, timer_id(TimerKind::Mark, 2 * index));
            self.timers.push(to, timer_id(TimerKind::Mark, 2 * index + 1));
        }
        for (index, probe) in self.config.probes.iter().enumerate() {
            self.timers.push(probe.start_ns, timer_id(TimerKind::Probe, index as u32));
        }
        self.timers.push(self.config.warmup_ns, timer_id(TimerKind::Mark, u32::MAX >> 4));
        self.timers.push(0, timer_id(TimerKind::Tick, 0));
        self.schedule_couplings();
        if let Some(users) = &self.config.users {
            self.timers.push(users.interval_ns, timer_id(TimerKind::UserTick, 0));
        }
    }

    fn add_line(&mut self, ordered: bool, end: PipeEnd, delay: u64) -> u32 {
        self.lines.push(Line { pipe: Pipe::new(ordered), end, delay });
        self.lines.len() as u32 - 1
    }

    /// The line behind a link for routes that add `delay`.
    fn delayed(&mut self, lines: &mut Lines, link: usize, delay: u64) -> u32 {
        if delay == 0 {
            return link as u32;
        }
        let reorders = self.links[link].impairment.as_ref().is_some_and(|i| i.reorders());
        *lines
            .delayed
            .entry((link, delay))
            .or_insert_with(|| self.add_line(!reorders, PipeEnd::Link, delay))
    }

    /// `delay` is that of the last leg; `lossy` whether it may lose packets.
    fn build_route(
        &mut self,
        lines: &mut Lines,
        hops: &[config::Hop],
        delay: u64,
        lossy: bool,
    ) -> Route {
        let last = hops.last();
        // A hop whose only predecessor is this link, with one delay for all: skip its event.
        let merged = !self.config.hop_by_hop
            && !self.config.capture
            && !lossy
            && last.is_some_and(|last| {
                let last = last.link();
                let steady = self.config.links[last].changes.iter().all(|c| c.delay_ns.is_none());
                let plain = self.links[last].impairment.as_ref().is_none_or(|i| i.only_loses());
                steady && plain
            });
        let delay = delay + last.filter(|_| merged).map_or(0, |last| last.delay_ns());
        // Told apart by the last link even if not merged, so that packets of one time are in one order.
        let key = (last.map(|last| last.link()), delay, lossy);
        let leg =
            *lines.legs.entry(key).or_insert_with(|| self.add_line(true, PipeEnd::EndPoint, delay));
        let start = self.routes.len() as Route;
        for (index, hop) in hops.iter().enumerate() {
            let line = self.delayed(lines, hop.link(), hop.delay_ns());
            let line = if merged && index + 1 == hops.len() { leg } else { line };
            self.routes.push(Hop { link: hop.link() as u32, line });
        }
        self.routes.push(Hop { link: Hop::LEG, line: leg });
        start
    }

    /// Add the way over these hops, there and back, with these delays of the last legs.
    fn build_way(
        &mut self,
        lines: &mut Lines,
        hops: [&[config::Hop]; 2],
        delays: [u64; 2],
        loss: Option<Box<LossProcess>>,
    ) -> u32 {
        let ordered = hops[0].iter().all(|hop| {
            let impairment = self.links[hop.link()].impairment.as_ref();
            !impairment.is_some_and(|i| i.reorders() || !i.only_loses())
        });
        let propagation = |hop: &config::Hop| self.links[hop.link()].delay + hop.delay_ns();
        let rtt = delays.into_iter().chain(hops.concat().iter().map(propagation)).sum();
        let way = Way {
            forward: self.build_route(lines, hops[0], delays[0], loss.is_some()),
            reverse: self.build_route(lines, hops[1], delays[1], false),
            loss,
            ordered,
            rtt,
        };
        self.ways.push(way);
        self.ways.len() as u32 - 1
    }

    fn build_entry(
        &mut self,
        flow: &'a Flow,
        lines: &mut Lines,
        recipes: &mut Recipes,
    ) -> Result<Entry<'a>, RunError> {
        let cc_seed = derive_seed(self.config.seed, &format!("{}/cc", flow.id));
        let mut custom = false;
        let mut recipe = None;
        let mut params = Arc::default();
        let mut own_recovery = false;
        let mut ecn = EcnMode::Off;
        if let Transport::Tcp(tcp) = &flow.transport {
            let fail = |message| RunError::config(format!("flows.{}.cc", flow.id), message);
            let cc = match self.custom.build(&tcp.cc.kind, &tcp.cc.params, cc_seed) {
                Some(built) => {
                    custom = true;
                    params = Arc::new(tcp.cc.params.clone());
                    built.map_err(fail)?
                }
                None => {
                    let known = recipes.of(&tcp.cc).map_err(|error| fail(error.to_string()))?;
                    params = Arc::clone(&known.params);
                    recipe.insert(Arc::clone(&known.recipe)).build(cc_seed)
                }
            };
            own_recovery = cc.recovery_style() == RecoveryStyle::Own;
            ecn = tcp.ecn_mode(cc.ecn_mode());
            if ecn != EcnMode::Off && cc.requested_rate().is_some() {
                let message = format!("{}: its congestion header excludes ECN", tcp.cc.kind);
                return Err(RunError::config(format!("flows.{}.ecn", flow.id), message));
            }
        }
        let transport = match &flow.transport {
            Transport::Other(other) => {
                if let Some(given) = given(self.custom, other, cc_seed) {
                    given.map_err(|message| {
                        RunError::config(format!("flows.{}.cc", flow.id), message)
                    })?;
                    custom = true;
                }
                let known = other.cc.as_ref().filter(|_| !custom);
                Some(Arc::new(build_transport(other, known, &flow.traffic).map_err(|error| {
                    RunError::config(format!("flows.{}.options", flow.id), error.to_string())
                })?))
            }
            _ => None,
        };
        let loss = (!matches!(flow.loss, Loss::None)).then(|| {
            let stream = Stream::new(self.config.seed, &format!("{}/loss", flow.id));
            Box::new(LossProcess::new(flow.loss.clone(), stream))
        });
        let hops = [flow.route.as_slice(), &flow.reverse_route];
        Ok(Entry {
            config: flow,
            way: self.build_way(lines, hops, [flow.delay_ns, flow.reverse_delay_ns], loss),
            custom,
            recipe,
            transport,
            membership: None,
            cc_seed,
            params,
            own_recovery,
            ecn,
            sent: 0,
            arrived: 0,
            marked_arrived: 0,
            dropped: 0,
            acks_sent: 0,
            acks_arrived: 0,
            acks_dropped: 0,
            delivered_bytes: 0,
            ended: Default::default(),
            ended_increases: 0,
            warmup: self.config.warmup_ns,
            rtt: Histogram::default(),
            window_bytes: (0, None),
            cwnd_sum: 0.0,
            cwnd_samples: 0,
            cwnd_max: 0.0,
            series_bytes: 0,
            completions: Vec::new(),
            completed: 0,
            connections: 0,
            slot: None,
            open: Vec::new(),
            free: VecDeque::new(),
            crowd: None,
            source: Source::new(Stream::new(self.config.seed, &format!("{}/traffic", flow.id))),
        })
    }

    fn build_probe(&mut self, probe: &Probe, lines: &mut Lines) -> ProbeState {
        let forward = self.build_route(lines, &probe.route, probe.delay_ns, false);
        let back = self.build_route(lines, &probe.reverse_route, probe.reverse_delay_ns, false);
        ProbeState::new(forward, back)
    }
}

/// The controller of a flow beside TCP, if it is one that is not built in.
pub(crate) fn given(
    custom: &dyn CustomControllers,
    other: &config::Other,
    seed: u64,
) -> Option<Result<Given, String>> {
    let cc = other.cc.as_ref()?;
    match registry::controllers_of(&other.transport) {
        "window" => Some(custom.build(&cc.kind, &cc.params, seed)?.map(Given::Window)),
        "media" => Some(custom.build_media(&cc.kind, &cc.params, seed)?.map(Given::Media)),
        _ => None,
    }
}

fn build_transport(
    other: &config::Other,
    cc: Option<&config::Controller>,
    traffic: &Traffic,
) -> Result<registry::Recipe, registry::BuildError> {
    let controller = cc.map(|cc| ControllerChoice { kind: &cc.kind, params: &cc.params });
    let recipe = registry::Recipe::new(&other.transport, &other.options, controller)?;
    Ok(match traffic {
        Traffic::Media(source) => recipe.with_source(Arc::clone(source)),
        _ => recipe,
    })
}

fn build_link(config: &Config, link: &LinkConfig) -> Result<Link, RunError> {
    let seed = derive_seed(config.seed, &format!("{}/queue", link.id));
    let queue = || {
        dumbbell_queue::build(&link.queue.kind, &link.queue.params, seed).map_err(|error| {
            RunError::config(format!("links.{}.queue", link.id), error.to_string())
        })
    };
    let discipline = match &link.capacity {
        Capacity::Unlimited => Discipline::Unlimited,
        Capacity::Constant { bps, shaper_burst_bytes } => {
            let queue = queue()?;
            let transmitter = Transmitter::new(*bps, *shaper_burst_bytes);
            let steady = link.changes.iter().all(|change| change.bps.is_none());
            match queue.fifo_fixed_rate() {
                Some(limit) if steady && !config.hop_by_hop && !config.capture => {
                    Discipline::Computed(ComputedFifo::new(transmitter, limit))
                }
                _ => {
                    let server =
                        Server::Constant { transmitter, sending: None, busy: false, retry_at: 0 };
                    Discipline::Stored(Box::new(StoredQueue { queue, server }))
                }
            }
        }
        Capacity::Trace { ms, mtu } => {
            let trace = Trace::new(ms.clone(), *mtu);
            let server = Server::Trace { trace, partial: None, scheduled: false };
            Discipline::Stored(Box::new(StoredQueue { queue: queue()?, server }))
        }
    };
    let may_change = link.changes.iter().any(|change| change.loss.is_some());
    let impairment = Impairment::new(&link.impairments, may_change, config.seed, &link.id);
    Ok(Link::new(discipline, link.framing, link.delay_ns, impairment, config.warmup_ns))
}
