//! Coupled congestion control: hands what the flows of one coupling compute to their group, and what the
//! group decides to the flows. The deciding is done by `dumbbell_cc::coupling`, and finding groups by
//! `dumbbell_transport::shared_bottleneck`.

use std::collections::BTreeMap;

use dumbbell_cc::coupling::fse::{self, Algorithm, Fse, FseOptions, Joining, Update};
use dumbbell_cc::coupling::{self, Group, observe};
use dumbbell_cc::{Controller, Params};
use dumbbell_transport::Packet;
use dumbbell_transport::flow::Ends;
use dumbbell_transport::shared_bottleneck::{self, SbdOptions, SharedBottleneck};

use crate::config::{self, Coupling as Config};
use crate::engine::{Engine, TimerKind, timer_id};
use crate::entry::Entry;
use crate::run::RunError;

/// A flow's place in a coupling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub(crate) coupling: u32,
    pub(crate) member: u32,
    /// Its delays are looked at.
    pub(crate) observed: bool,
}

#[derive(Clone, Debug)]
struct Member {
    flow: u32,
    priority: f64,
    desired: f64,
    /// Group that it belongs to; none: it goes on alone.
    group: Option<u32>,
    /// Not asked to stay out.
    coupled: bool,
    /// Its session, while there is one.
    slot: Option<u32>,
    /// Group in whose exchange it is.
    joined: Option<u32>,
    /// Of a session among connections: by which number its group knows it, and the rate it has set.
    among_windows: Option<(u32, f64)>,
}

enum Sharing {
    Nothing,
    /// Of rates: the exchange of each group.
    Rates(FseOptions, BTreeMap<u32, Fse>),
    Windows(BTreeMap<u32, Group>),
}

pub(crate) struct Coupling {
    sharing: Sharing,
    members: Vec<Member>,
    detector: Option<SharedBottleneck>,
    /// Packets that each member had lost when the last interval of the detector ended.
    lost: Vec<u64>,
}

impl Coupling {
    fn new(config: &Config) -> Result<Self, RunError> {
        let key = format!("coupling.{}", config.id);
        let fail = |part: &str, error: dumbbell_cc::BuildError| {
            RunError::config(format!("{key}.{part}"), error.to_string())
        };
        let sharing = match config.kind.as_str() {
            observe::NAME => Sharing::Nothing,
            fse::NAME => {
                let params = Params::check(fse::NAME, &fse::info().options, &config.options)
                    .map_err(|error| fail("options", error))?;
                Sharing::Rates(FseOptions::new(&params), BTreeMap::new())
            }
            kind => {
                let mut groups = BTreeMap::new();
                for member in &config.members {
                    let group =
                        Group::new(kind, &config.options).map_err(|error| fail("kind", error))?;
                    groups.entry(member.group).or_insert(group);
                }
                Sharing::Windows(groups)
            }
        };
        let detector = match &config.detect {
            Some(options) => {
                let params = Params::check("sbd", &shared_bottleneck::options(), options)
                    .map_err(|error| fail("detect", error))?;
                Some(SharedBottleneck::new(SbdOptions::new(&params), config.members.len()))
            }
            None => None,
        };
        let member = |member: &config::CoupledFlow| Member {
            flow: member.flow as u32,
            priority: member.priority,
            desired: member.desired_bps.unwrap_or(f64::INFINITY),
            group: detector.is_none().then_some(member.group),
            coupled: true,
            slot: None,
            joined: None,
            among_windows: None,
        };
        Ok(Self {
            sharing,
            members: config.members.iter().map(member).collect(),
            lost: vec![0; config.members.len()],
            detector,
        })
    }

    /// Let a member be where it belongs; `rate` is its own at present, bits per second.
    fn settle(&mut self, index: usize, rate: f64) {
        let member = &mut self.members[index];
        let joining = Joining { priority: member.priority, rate, desired: member.desired };
        let (options, groups) = match &mut self.sharing {
            Sharing::Rates(options, groups) => (options, groups),
            Sharing::Windows(groups) => {
                let Some(group) = member.group.and_then(|group| groups.get(&group)) else { return };
                match (member.slot, member.among_windows) {
                    (Some(_), None) => {
                        member.among_windows = group.join_rate(joining).map(|id| (id, rate));
                    }
                    (None, Some((id, _))) => {
                        group.leave_rate(id);
                        member.among_windows = None;
                    }
                    _ => {}
                }
                return;
            }
            Sharing::Nothing => return,
        };
        let wanted = member.group.filter(|_| member.coupled && member.slot.is_some());
        if member.joined == wanted {
            return;
        }
        if let Some(group) = member.joined.and_then(|joined| groups.get_mut(&joined)) {
            group.leave(index as u32);
        }
        member.joined = wanted;
        if let Some(wanted) = wanted {
            groups.entry(wanted).or_insert_with(|| Fse::new(*options)).join(index as u32, joining);
        }
    }

    /// Internal variables of a member for recording.
    pub(crate) fn record(&self, index: u32, out: &mut dyn FnMut(&'static str, f64)) {
        let member = &self.members[index as usize];
        let rates = match &self.sharing {
            Sharing::Rates(_, groups) => Some(groups),
            _ => None,
        };
        if let Some(groups) = rates {
            let group = member.joined.and_then(|joined| groups.get(&joined));
            out("fse_rate", group.and_then(|group| group.rate(index)).unwrap_or(f64::NAN));
            out("fse_sum", group.map_or(f64::NAN, Fse::sum));
            out("fse_priority", member.priority);
        }
        if let Some((_, rate)) = member.among_windows {
            out("fse_rate", rate);
        }
        if let Some(detector) = &self.detector {
            let estimate = detector.estimate(index as usize);
            out("sbd_group", detector.group(index as usize).map_or(f64::NAN, f64::from));
            out("sbd_skewness", estimate.skewness);
            out("sbd_variability_ms", estimate.variability / 1e6);
            out("sbd_frequency", estimate.frequency);
            out("sbd_loss", estimate.loss);
        }
    }
}

impl Engine<'_> {
    /// # Errors
    /// An unknown kind or option, or a flow that cannot take part.
    pub(crate) fn build_couplings(&mut self) -> Result<(), RunError> {
        for (index, config) in self.config.coupling.iter().enumerate() {
            let coupling = Coupling::new(config)?;
            for (member, flow) in config.members.iter().enumerate() {
                let entry = &mut self.entries[flow.flow];
                check_member(entry, config, &coupling.sharing)?;
                entry.membership = Some(Membership {
                    coupling: index as u32,
                    member: member as u32,
                    observed: coupling.detector.is_some(),
                });
            }
            self.couplings.push(coupling);
        }
        Ok(())
    }

    /// Timers of all changes, then one for each detector.
    pub(crate) fn schedule_couplings(&mut self) {
        let mut number = 0;
        for coupling in &self.config.coupling {
            for change in &coupling.changes {
                self.timers.push(change.at_ns, timer_id(TimerKind::Coupling, number));
                number += 1;
            }
        }
        for coupling in &self.couplings {
            if let Some(detector) = &coupling.detector {
                let at = detector.options().interval;
                self.timers.push(at, timer_id(TimerKind::Coupling, number));
            }
            number += 1;
        }
    }

    pub(crate) fn on_coupling_timer(&mut self, number: u32) {
        let mut number = number as usize;
        for (index, coupling) in self.config.coupling.iter().enumerate() {
            if let Some(change) = coupling.changes.get(number) {
                return self.change_member(index, change);
            }
            number -= coupling.changes.len();
        }
        self.on_detector_interval(number);
    }

    fn change_member(&mut self, coupling: usize, change: &config::CouplingChange) {
        let state = &mut self.couplings[coupling];
        let member = &mut state.members[change.member];
        if let Some(bps) = change.desired_bps {
            member.desired = if bps > 0.0 { bps } else { f64::INFINITY };
        }
        if let Some(coupled) = change.coupled {
            member.coupled = coupled;
        }
        if let Some(group) = change.group.filter(|_| state.detector.is_none()) {
            member.group = Some(group);
        }
        if let Some(priority) = change.priority {
            member.priority = priority;
            if let (Sharing::Rates(_, groups), Some(joined)) = (&mut state.sharing, member.joined)
                && let Some(group) = groups.get_mut(&joined)
            {
                group.set_priority(change.member as u32, priority);
            }
        }
        self.settle_member(coupling, change.member);
    }

    fn on_detector_interval(&mut self, index: usize) {
        let coupling = &mut self.couplings[index];
        let Some(detector) = &mut coupling.detector else { return };
        for (member, state) in coupling.members.iter().enumerate() {
            let dropped = self.entries[state.flow as usize].dropped;
            detector.on_loss(member, dropped - coupling.lost[member]);
            coupling.lost[member] = dropped;
        }
        detector.end_interval();
        for (member, state) in coupling.members.iter_mut().enumerate() {
            state.group = detector.group(member);
        }
        let interval = detector.options().interval;
        let changes: usize = self.config.coupling.iter().map(|c| c.changes.len()).sum();
        let timer = timer_id(TimerKind::Coupling, (changes + index) as u32);
        self.timers.push(self.now.saturating_add(interval), timer);
        for member in 0..self.couplings[index].members.len() {
            self.settle_member(index, member);
        }
    }

    fn settle_member(&mut self, coupling: usize, member: usize) {
        let slot = self.couplings[coupling].members[member].slot;
        let rate = slot.map_or(0.0, |slot| self.sessions[slot as usize].sender.snapshot().rate);
        self.couplings[coupling].settle(member, rate);
    }

    /// A session of a flow has opened or closed.
    pub(crate) fn on_session_change(&mut self, flow: u32, slot: Option<u32>) {
        let Some(at) = self.entries[flow as usize].membership else { return };
        let (index, member) = (at.coupling as usize, at.member as usize);
        let coupling = &mut self.couplings[index];
        coupling.members[member].slot = slot;
        if let (None, Some(detector)) = (slot, &mut coupling.detector) {
            detector.reset(member);
            // What it has lost is no loss of the next session.
            coupling.lost[member] = self.entries[flow as usize].dropped;
        }
        self.settle_member(index, member);
    }

    /// A packet of a flow has arrived: its delay tells of the queue that it was in.
    #[inline]
    pub(crate) fn observe(&mut self, flow: usize, packet: &Packet) {
        let Some(at) = self.entries[flow].membership.filter(|at| at.observed) else { return };
        if let Some(detector) = &mut self.couplings[at.coupling as usize].detector {
            detector.on_delay(at.member as usize, self.now as i64 - packet.timestamp as i64);
        }
    }

    /// After an event at the sender of a session: what its control has computed goes to its group, and
    /// what the group decides to the other senders.
    #[inline]
    pub(crate) fn exchange(&mut self, slot: u32) {
        let flow = self.sessions[slot as usize].place.entry as usize;
        if let Some(at) = self.entries[flow].membership {
            self.exchange_rates(slot, at);
        }
    }

    fn exchange_rates(&mut self, slot: u32, at: Membership) {
        let now = self.now;
        let Coupling { sharing, members, .. } = &mut self.couplings[at.coupling as usize];
        let Some(sender) = self.sessions[slot as usize].sender.coupled() else { return };
        let Some(calculated) = sender.take_calculated() else { return };
        let member = &members[at.member as usize];
        let update = Update {
            rate: calculated.rate,
            desired: calculated.desired.min(member.desired),
            rtt: calculated.rtt,
        };
        let (options, groups) = match sharing {
            Sharing::Rates(options, groups) => (options, groups),
            Sharing::Windows(groups) => {
                let group = member.group.and_then(|group| groups.get(&group));
                if let (Some(group), Some((id, _))) = (group, member.among_windows) {
                    group.update_rate(now, id, update);
                    self.take_rates(at, Some(slot));
                }
                return;
            }
            Sharing::Nothing => return,
        };
        let Some(group) = member.joined.and_then(|joined| groups.get_mut(&joined)) else { return };
        let (mut given, mut woken) = (0.0, Vec::new());
        for &(id, rate) in group.update(now, at.member, update) {
            given += rate;
            let Some(other) = members[id as usize].slot else { continue };
            let session = &mut self.sessions[other as usize];
            if let Some(sender) = session.sender.coupled() {
                sender.set_rate(now, rate);
            }
            if other != slot {
                woken.push(other);
            }
        }
        // The passive algorithm answers one flow at a time and does not hold to the sum.
        let bounded = options.algorithm != Algorithm::Passive;
        let sum = group.sum();
        if bounded && given > sum * (1.0 + 1e-9) {
            self.fail_invariant(format!("coupled flows were given {given} bit/s of {sum}"));
        }
        for other in woken {
            self.pump_session(other);
        }
    }

    /// After an event at a member of a group of windows: set the rates of the sessions among them, and
    /// send what they may then send, but for the session at `caller`, which is about to.
    pub(crate) fn take_rates(&mut self, at: Membership, caller: Option<u32>) {
        let now = self.now;
        let Coupling { sharing: Sharing::Windows(groups), members, .. } =
            &mut self.couplings[at.coupling as usize]
        else {
            return;
        };
        let mut woken = Vec::new();
        for member in members {
            let Some((id, given)) = &mut member.among_windows else { continue };
            let group = member.group.and_then(|group| groups.get(&group));
            let Some(rate) = group.and_then(|group| group.rate(*id)) else { continue };
            let Some(slot) = member.slot else { continue };
            // The caller has computed another rate since.
            if rate == *given && caller != Some(slot) {
                continue;
            }
            *given = rate;
            if let Some(sender) = self.sessions[slot as usize].sender.coupled() {
                sender.set_rate(now, rate);
            }
            if caller != Some(slot) {
                woken.push(slot);
            }
        }
        for slot in woken {
            self.pump_session(slot);
        }
    }

    /// The controller of a connection of this flow, as a member of its group.
    pub(crate) fn couple(
        &self,
        entry: &Entry,
        cc: Box<dyn Controller>,
    ) -> Result<Box<dyn Controller>, RunError> {
        let Some(at) = entry.membership else { return Ok(cc) };
        let coupling = &self.couplings[at.coupling as usize];
        let member = &self.config.coupling[at.coupling as usize].members[at.member as usize];
        match &coupling.sharing {
            Sharing::Windows(groups) => groups[&member.group]
                .join(cc, member.priority)
                .map_err(|error| fail_member(entry, error.to_string())),
            _ => Ok(cc),
        }
    }
}

fn fail_member(entry: &Entry, message: impl Into<String>) -> RunError {
    RunError::config(format!("flows.{}", entry.id()), message)
}

fn check_member(entry: &Entry, config: &Config, sharing: &Sharing) -> Result<(), RunError> {
    if entry.membership.is_some() {
        return Err(fail_member(entry, "a flow can be in one coupling only"));
    }
    let rate = entry
        .transport
        .as_ref()
        .is_some_and(|transport| transport.build(&Ends::default()).sender.coupled().is_some());
    let mixed = config.kind == coupling::FSE_WINDOW;
    let expected = match sharing {
        Sharing::Rates(..) if !rate => {
            "a transport whose rate can be set: rap, tfrc or rtp (fse-window has tcp as well)"
        }
        Sharing::Windows(_) if mixed && entry.tcp().is_none() && !rate => {
            "transport tcp, or one whose rate can be set"
        }
        Sharing::Windows(_) if !mixed && entry.tcp().is_none() => "transport tcp",
        _ => return Ok(()),
    };
    Err(fail_member(entry, format!("coupling of kind {}: expected {expected}", config.kind)))
}

/// What a kind of coupling shares, for checks of configurations; `None` if it is unknown.
pub(crate) fn shares(kind: &str) -> Option<&'static str> {
    coupling::list().iter().find(|info| info.name == kind).map(|info| info.shares)
}
