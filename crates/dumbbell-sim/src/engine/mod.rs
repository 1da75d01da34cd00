//! The event loop: moves packets between end points, links and pipes in virtual time.
//!
//! Two heaps hold what happens next. `hops` has the head of each busy pipe and the end of each
//! transmission; `timers` has one lazy entry for each armed timer. Both are keyed by (time, id), and
//! at equal times transmissions come before arrivals and arrivals before timers, whatever the order
//! in which they were scheduled: shortcuts that skip an event therefore do not change the result.

mod capture;
mod endpoints;
mod hops;
mod timers;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use dumbbell_transport::{Kind, Packet};

use crate::config::Config;
use crate::connection::Connection;
use crate::coupling::Coupling;
use crate::entry::Entry;
use crate::heap::EventHeap;
use crate::impairment::LossProcess;
use crate::link::Link;
use crate::output::Output;
use crate::pipe::Pipe;
use crate::probe::ProbeState;
use crate::record::Recorder;
use crate::run::{CustomControllers, Progress, RunError};
use crate::session::Session;
use crate::user_record::UserRecorder;
use crate::users::{Crowd, User};

/// Events between two looks at the wall clock.
const PROGRESS_EVENTS: u64 = 1 << 16;
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// Kinds of timer, in the upper bits of a timer id; lower kinds first at equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum TimerKind {
    LinkChange = 0,
    Sender = 1,
    Pacing = 2,
    DelayedAck = 3,
    Source = 4,
    Probe = 5,
    /// Start and end of what the summary counts, for each flow.
    Mark = 6,
    Tick = 7,
    User = 8,
    /// A sample of all users.
    UserTick = 9,
    SessionSender = 10,
    SessionReceiver = 11,
    /// A change in a coupling, or the end of an interval of its detector.
    Coupling = 12,
}

const TIMER_SHIFT: u32 = 28;
const TIMER_MASK: u32 = (1 << TIMER_SHIFT) - 1;

pub(crate) fn timer_id(kind: TimerKind, index: u32) -> u32 {
    (kind as u32) << TIMER_SHIFT | index
}

/// Whether a packet goes from the sender of data to its receiver, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Reverse,
}

pub(crate) fn direction(kind: Kind) -> Direction {
    match kind {
        Kind::Data | Kind::Syn | Kind::Datagram | Kind::Ping | Kind::Payload | Kind::LowPayload => {
            Direction::Forward
        }
        Kind::Ack | Kind::SynAck | Kind::Pong | Kind::Request | Kind::Report | Kind::StrongAck => {
            Direction::Reverse
        }
    }
}

/// What comes out of a pipe goes on from there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PipeEnd {
    /// Propagation of a link: next hop of the packet's route.
    Link,
    /// The last leg: the end point.
    EndPoint,
}

/// A pipe, what is behind it, and its delay beyond that of the link before it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) pipe: Pipe,
    pub(crate) end: PipeEnd,
    pub(crate) delay: u64,
}

/// A link of a route, and the line behind it. The line of the last link is the last leg itself where
/// the two are merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) link: u32,
    pub(crate) line: u32,
}

impl Hop {
    /// In place of a link behind the last one: only the last leg is left.
    pub(crate) const LEG: u32 = u32::MAX;

    #[inline]
    fn is_leg(self) -> bool {
        self.link == Self::LEG
    }
}

/// A route in one direction: where its hops begin in [`Engine::routes`]; its last leg ends them.
pub(crate) type Route = u32;

/// How a connection's packets travel.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) forward: Route,
    pub(crate) reverse: Route,
    /// On the last leg of the forward route.
    pub(crate) loss: Option<Box<LossProcess>>,
    /// No part of the forward route reorders.
    pub(crate) ordered: bool,
    /// Propagation there and back.
    pub(crate) rtt: u64,
}

/// Where a connection belongs, with the routes of its way: what every hop looks up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) entry: u32,
    pub(crate) way: u32,
    pub(crate) forward: Route,
    pub(crate) reverse: Route,
}

pub(crate) struct Engine<'a> {
    pub(crate) config: &'a Config,
    pub(crate) custom: &'a dyn CustomControllers,
    pub(crate) now: u64,
    pub(crate) end: u64,
    pub(crate) hops: EventHeap,
    pub(crate) timers: EventHeap,
    pub(crate) links: Vec<Link>,
    /// First one for the propagation of each link, then those of further hops and of the last legs.
    pub(crate) lines: Vec<Line>,
    /// Hops of all routes, one route after the other.
    pub(crate) routes: Vec<Hop>,
    /// The paths that users choose from, with their numbers, then the ways of flows.
    pub(crate) ways: Vec<Way>,
    pub(crate) connections: Vec<Connection>,
    /// Of each connection, kept close together.
    pub(crate) places: Vec<Place>,
    /// Of transports other than TCP, with slots of their own.
    pub(crate) sessions: Vec<Session>,
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) couplings: Vec<Coupling>,
    pub(crate) probes: Vec<ProbeState>,
    pub(crate) crowds: Vec<Crowd<'a>>,
    pub(crate) users: Vec<User>,
    pub(crate) user_recorder: Option<UserRecorder>,
    pub(crate) recorder: Recorder,
    pub(crate) events: u64,
    pub(crate) complete: bool,
    /// First error met while handling an event.
    pub(crate) failure: Option<RunError>,
    released: Vec<Packet>,
    capturing: bool,
}

impl<'a> Engine<'a> {
    /// The place of a connection of an entry with this way.
    pub(crate) fn place(&self, entry: u32, way: u32) -> Place {
        let Way { forward, reverse, .. } = self.ways[way as usize];
        Place { entry, way, forward, reverse }
    }

    pub(crate) fn new(config: &'a Config, custom: &'a dyn CustomControllers) -> Self {
        Self {
            config,
            custom,
            now: 0,
            end: config.duration_ns,
            hops: EventHeap::default(),
            timers: EventHeap::default(),
            links: Vec::new(),
            lines: Vec::new(),
            routes: Vec::new(),
            ways: Vec::new(),
            places: Vec::new(),
            crowds: Vec::new(),
            users: Vec::new(),
            user_recorder: config.users.as_ref().map(UserRecorder::new),
            capturing: config.capture,
            connections: Vec::new(),
            sessions: Vec::new(),
            entries: Vec::new(),
            couplings: Vec::new(),
            probes: Vec::new(),
            recorder: Recorder::new(config),
            events: 0,
            complete: false,
            failure: None,
            released: Vec::new(),
        }
    }

    pub(crate) fn run(
        mut self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Output, RunError> {
        let mut reported = Instant::now();
        let mut next_report = PROGRESS_EVENTS;
        self.complete = true;
        loop {
            let hop = self.hops.peek();
            let timer = self.timers.peek();
            let hop_first = match (hop, timer) {
                (Some(hop), Some(timer)) => hop.0 <= timer.0,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let (time, id) = if hop_first { hop } else { timer }.unwrap_or((u64::MAX, 0));
            if time > self.end {
                break;
            }
            if time < self.now {
                self.fail_invariant(format!("an event at {time} ns lies in the past"));
            }
            self.now = time;
            self.events += 1;
            if hop_first {
                self.on_hop(id);
            } else {
                self.timers.pop();
                self.on_timer(time, id);
            }
            if self.events >= next_report {
                next_report = self.events + PROGRESS_EVENTS;
                if reported.elapsed() >= PROGRESS_PERIOD {
                    reported = Instant::now();
                    let at =
                        Progress { now_ns: self.now, duration_ns: self.end, events: self.events };
                    if progress(at).is_break() {
                        self.complete = false;
                        self.end = self.now;
                        break;
                    }
                }
            }
            if self.failure.is_some() {
                break;
            }
        }
        if let Some(failure) = self.failure.take() {
            return Err(match failure {
                RunError::Controller { flow, now_ns, message, .. } => {
                    self.complete = false;
                    self.end = self.now;
                    let partial = Box::new(self.finish());
                    RunError::Controller { flow, now_ns, message, partial }
                }
                other => other,
            });
        }
        self.now = self.end;
        self.check_conservation()?;
        Ok(self.finish())
    }

    pub(crate) fn fail_invariant(&mut self, message: String) {
        if self.failure.is_none() {
            self.failure = Some(RunError::Invariant { now_ns: self.now, message });
        }
    }
}
