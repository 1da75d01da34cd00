//! The event loop: moves packets between end points, links and pipes in virtual time.
//!
//! Two heaps hold what happens next. `hops` has the head of each busy pipe and the end of each
//! transmission; `timers` has one lazy entry for each armed timer. Both are keyed by (time, id), and
//! at equal times transmissions come before arrivals and arrivals before timers, whatever the order
//! in which they were scheduled: shortcuts that skip an event therefore do not change the result.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use dumbbell_queue::{Enqueued, Packet as _};
use dumbbell_transport::{Kind, Packet};

use crate::config::Config;
use crate::connection::{Connection, ConnectionTimer, Phase};
use crate::entry::Entry;
use crate::heap::EventHeap;
use crate::impairment::LossProcess;
use crate::link::{Discipline, Link, Server, is_overflow};
use crate::output::Output;
use crate::pipe::Pipe;
use crate::probe::ProbeState;
use crate::record::Recorder;
use crate::run::{CustomControllers, Progress, RunError};

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
}

const TIMER_SHIFT: u32 = 28;
const TIMER_MASK: u32 = (1 << TIMER_SHIFT) - 1;

pub(crate) fn timer_id(kind: TimerKind, index: u32) -> u32 {
    (kind as u32) << TIMER_SHIFT | index
}

/// Where a packet goes after its last link: a pipe, and whether it is the receiver's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Reverse,
}

pub(crate) fn direction(kind: Kind) -> Direction {
    match kind {
        Kind::Data | Kind::Syn | Kind::Datagram | Kind::Ping => Direction::Forward,
        Kind::Ack | Kind::SynAck | Kind::Pong | Kind::Request => Direction::Reverse,
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

/// Route of a flow or probe in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) links: Vec<u32>,
    /// Pipe of the last leg; its delay includes the propagation of the last link when `merged`.
    pub(crate) leg: u32,
    pub(crate) leg_delay: u64,
    /// The propagation of the last link and the leg are one pipe.
    pub(crate) merged: bool,
    pub(crate) loss: Option<Box<LossProcess>>,
}

pub(crate) struct Engine<'a> {
    pub(crate) config: &'a Config,
    pub(crate) custom: &'a dyn CustomControllers,
    pub(crate) now: u64,
    pub(crate) end: u64,
    pub(crate) hops: EventHeap,
    pub(crate) timers: EventHeap,
    pub(crate) links: Vec<Link>,
    pub(crate) pipes: Vec<(Pipe, PipeEnd)>,
    /// Pipe of each link's propagation.
    pub(crate) link_pipes: Vec<u32>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) probes: Vec<ProbeState>,
    pub(crate) recorder: Recorder,
    pub(crate) events: u64,
    pub(crate) complete: bool,
    /// First error met while handling an event.
    pub(crate) failure: Option<RunError>,
    released: Vec<Packet>,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(config: &'a Config, custom: &'a dyn CustomControllers) -> Self {
        Self {
            config,
            custom,
            now: 0,
            end: config.duration_ns,
            hops: EventHeap::default(),
            timers: EventHeap::default(),
            links: Vec::new(),
            pipes: Vec::new(),
            link_pipes: Vec::new(),
            connections: Vec::new(),
            entries: Vec::new(),
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

    // ---- hops ----------------------------------------------------------------------------------

    #[inline]
    fn on_hop(&mut self, id: u32) {
        let servers = self.links.len() as u32;
        if id < servers {
            self.hops.pop();
            self.on_server(id as usize);
            return;
        }
        let (pipe, end) = &mut self.pipes[(id - servers) as usize];
        let end = *end;
        // A pipe in which packets overtake can have outdated entries in the heap.
        if pipe.head() != Some(self.now) {
            self.hops.pop();
            return;
        }
        let Some(packet) = pipe.pop() else { return };
        match pipe.head() {
            Some(next) => self.hops.replace_top(next, id),
            None => self.hops.pop(),
        }
        match end {
            PipeEnd::EndPoint => self.deliver(packet),
            PipeEnd::Link => self.forward(packet),
        }
    }

    #[inline]
    fn push_pipe(&mut self, pipe: u32, time: u64, packet: Packet) {
        if let Some(head) = self.pipes[pipe as usize].0.push(time, packet) {
            self.hops.push(head, self.links.len() as u32 + pipe);
        }
    }

    fn route(&mut self, packet: &Packet) -> &mut Route {
        if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            let probe = &mut self.probes[packet.flow as usize];
            return match direction(packet.kind) {
                Direction::Forward => &mut probe.forward,
                Direction::Reverse => &mut probe.reverse,
            };
        }
        let entry = self.entry_of(packet);
        let entry = &mut self.entries[entry];
        match direction(packet.kind) {
            Direction::Forward => &mut entry.forward,
            Direction::Reverse => &mut entry.reverse,
        }
    }

    /// The flow that a packet (not a probe's) belongs to: datagrams name it, segments their slot.
    #[inline]
    fn entry_of(&self, packet: &Packet) -> usize {
        match packet.kind {
            Kind::Datagram => packet.flow as usize,
            _ => self.connections[packet.flow as usize].entry as usize,
        }
    }

    /// A packet enters the network at its end point.
    #[inline]
    pub(crate) fn send(&mut self, packet: Packet) {
        if self.config.capture {
            self.capture("sender", "send", &packet);
        }
        self.forward(packet);
    }

    /// A packet stands before its next link, or before its last leg.
    #[inline]
    fn forward(&mut self, mut packet: Packet) {
        let hop = packet.hop as usize;
        let route = self.route(&packet);
        match route.links.get(hop).copied() {
            Some(link) => {
                packet.hop += 1;
                self.offer(link as usize, packet);
            }
            None => {
                let (leg, time) = (route.leg, route.leg_delay);
                let lost = route.loss.as_mut().is_some_and(|loss| loss.loses());
                if lost {
                    self.count_drop(&packet);
                    self.capture("path", "drop", &packet);
                    return;
                }
                let time = self.now + time;
                self.push_pipe(leg, time, packet);
            }
        }
    }

    /// Offer a packet to a link.
    #[inline]
    fn offer(&mut self, index: usize, mut packet: Packet) {
        let now = self.now;
        let link = &mut self.links[index];
        packet.overhead = link.overhead_for(packet.ip_bytes);
        link.counters.offered += 1;
        match &mut link.discipline {
            Discipline::Unlimited => {
                link.counters.packets_out += 1;
                link.counters.bytes_out += u64::from(packet.bytes());
                self.leave(index, now, packet);
            }
            Discipline::Computed(fifo) => {
                let bytes = packet.bytes();
                match fifo.offer(now, bytes, &mut link.sojourn) {
                    Some(left) => {
                        link.counters.bytes_accepted += u64::from(bytes);
                        self.leave(index, left, packet);
                    }
                    None => {
                        link.counters.drops += 1;
                        self.count_drop(&packet);
                    }
                }
            }
            Discipline::Stored(_) => self.offer_stored(index, packet),
        }
    }

    fn offer_stored(&mut self, index: usize, mut packet: Packet) {
        let now = self.now;
        self.capture_link(index, "enqueue", &packet);
        let link = &mut self.links[index];
        let Discipline::Stored(stored) = &mut link.discipline else {
            return;
        };
        if let Server::Trace { trace, partial, wasted, .. } = &mut stored.server
            && partial.is_none()
            && stored.queue.backlog_packets() == 0
        {
            *wasted += trace.skip_to(now);
        }
        packet.set_enqueued_at(now);
        let outcome = stored.queue.enqueue(now, packet, &mut link.dropped);
        if outcome == Enqueued::Marked {
            self.capture_link(index, "mark", &packet);
        }
        self.take_drops(index);
        self.start_server(index);
    }

    /// If the server is free, begin the next transmission.
    fn start_server(&mut self, index: usize) {
        let link = &mut self.links[index];
        let Discipline::Stored(stored) = &mut link.discipline else {
            return;
        };
        if matches!(stored.server, Server::Constant { .. }) {
            self.start_constant(index);
            return;
        }
        let backlog = stored.queue.backlog_packets();
        if let Server::Trace { trace, partial, scheduled, .. } = &mut stored.server
            && !*scheduled
            && (backlog > 0 || partial.is_some())
        {
            *scheduled = true;
            let at = trace.peek();
            self.hops.push(at, index as u32);
        }
    }

    /// Transmissions of a constant-rate server. A serial line holds the packet until it has left; a
    /// shaper lets packets go until its tokens are used up.
    fn start_constant(&mut self, index: usize) {
        let now = self.now;
        loop {
            let link = &mut self.links[index];
            let Discipline::Stored(stored) = &mut link.discipline else { return };
            let was_busy = stored.is_busy();
            let started = stored.start(now, &mut link.dropped);
            let Server::Constant { transmitter, sending, busy } = &mut stored.server else {
                return;
            };
            let next = transmitter.free_at();
            let Some((packet, left)) = started else {
                if *busy && !was_busy {
                    // Tokens are awaited.
                    self.hops.push(next, index as u32);
                }
                break;
            };
            if left > now {
                (*sending, *busy) = (Some(packet), true);
            }
            link.sojourn.add(now, now - packet.enqueued);
            if left > now {
                self.hops.push(left, index as u32);
                break;
            }
            link.counters.packets_out += 1;
            link.counters.bytes_out += u64::from(packet.bytes());
            self.leave(index, now, packet);
        }
        if !self.links[index].dropped.is_empty() {
            self.take_drops(index);
        }
    }

    /// A transmission ends, or a delivery opportunity comes.
    fn on_server(&mut self, index: usize) {
        let now = self.now;
        let link = &mut self.links[index];
        let Discipline::Stored(stored) = &mut link.discipline else {
            return;
        };
        match &mut stored.server {
            Server::Constant { transmitter, sending, busy } => {
                // A rate change moves the end; the old event is then void.
                if !*busy || transmitter.free_at() != now {
                    return;
                }
                *busy = false;
                if let Some(packet) = sending.take() {
                    link.counters.packets_out += 1;
                    link.counters.bytes_out += u64::from(packet.bytes());
                    self.leave(index, now, packet);
                }
            }
            Server::Trace { scheduled, trace, .. } => {
                *scheduled = false;
                // All opportunities of this millisecond, one after the other.
                if trace.peek() != now {
                    self.start_server(index);
                    return;
                }
                trace.advance();
                let mut out = std::mem::take(&mut self.released);
                stored.use_opportunity(now, &mut link.dropped, &mut out);
                for packet in out.drain(..) {
                    let link = &mut self.links[index];
                    link.counters.packets_out += 1;
                    link.counters.bytes_out += u64::from(packet.bytes());
                    link.sojourn.add(now, now - packet.enqueued);
                    self.leave(index, now, packet);
                }
                self.released = out;
                self.take_drops(index);
            }
        }
        self.start_server(index);
    }

    /// A packet has left the transmitter of a link at `time`: impairments, then propagation.
    #[inline]
    fn leave(&mut self, index: usize, time: u64, packet: Packet) {
        if self.config.capture {
            self.capture_link(index, "depart", &packet);
        }
        let link = &mut self.links[index];
        let mut delay = link.delay;
        if let Some(impairment) = &mut link.impairment {
            if impairment.loss.loses() {
                link.counters.random_losses += 1;
                self.count_drop(&packet);
                self.capture_link(index, "lost", &packet);
                return;
            }
            if !impairment.only_loses() {
                if impairment.duplicates() {
                    let copy_delay = impairment.delay(delay);
                    self.propagate(index, time + copy_delay, packet);
                    self.count_duplicate(&packet);
                }
                if let Some(impairment) = &mut self.links[index].impairment {
                    delay = impairment.delay(delay);
                }
            }
        }
        self.propagate(index, time + delay, packet);
    }

    #[inline]
    fn propagate(&mut self, index: usize, time: u64, packet: Packet) {
        let hop = packet.hop as usize;
        let route = self.route(&packet);
        if route.merged && hop == route.links.len() {
            let (leg, delay) = (route.leg, route.leg_delay);
            self.push_pipe(leg, time + delay, packet);
            return;
        }
        let pipe = self.link_pipes[index];
        self.push_pipe(pipe, time, packet);
    }

    /// Account for what a queue has dropped.
    fn take_drops(&mut self, index: usize) {
        let mut dropped = std::mem::take(&mut self.links[index].dropped);
        for (packet, reason) in dropped.drain(..) {
            self.links[index].counters.drops += 1;
            self.count_drop(&packet);
            let event = if is_overflow(reason) { "drop-overflow" } else { "drop-aqm" };
            self.capture_link(index, event, &packet);
        }
        self.links[index].dropped = dropped;
    }

    #[inline(never)]
    fn count_drop(&mut self, packet: &Packet) {
        if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            self.probes[packet.flow as usize].dropped += 1;
        } else {
            let entry = self.entry_of(packet);
            self.entries[entry].count_drop(direction(packet.kind));
        }
    }

    fn count_duplicate(&mut self, packet: &Packet) {
        if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            self.probes[packet.flow as usize].duplicated += 1;
        } else {
            let entry = self.entry_of(packet);
            self.entries[entry].count_sent(direction(packet.kind));
        }
    }

    // ---- end points ----------------------------------------------------------------------------

    /// A packet reached its end point.
    #[inline]
    fn deliver(&mut self, packet: Packet) {
        if self.config.capture {
            self.capture("receiver", "receive", &packet);
        }
        match packet.kind {
            Kind::Data => self.on_data(&packet),
            Kind::Ack => self.on_ack(&packet),
            _ => self.on_control(&packet),
        }
    }

    #[inline]
    fn on_data(&mut self, packet: &Packet) {
        let slot = packet.flow;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        entry.arrived += 1;
        entry.marked_arrived += u64::from(packet.is_ce());
        if packet.generation != connection.generation || connection.phase == Phase::Closed {
            return;
        }
        if packet.timestamp < connection.last_arrival {
            if entry.ordered {
                self.fail_invariant(format!("flow slot {slot}: data overtook data"));
                return;
            }
        } else {
            connection.last_arrival = packet.timestamp;
        }
        let before = connection.receiver.bytes_in_order();
        let ack = connection.receiver.on_data(self.now, packet);
        let after = connection.receiver.bytes_in_order();
        entry.delivered_bytes += after - before;
        let finished = connection.size > 0 && !connection.completed && after >= connection.size;
        if let Some(ack) = ack {
            self.send_ack(ack);
        } else {
            self.arm(slot, ConnectionTimer::DelayedAck);
        }
        if finished {
            self.on_transfer_complete(slot);
        }
    }

    #[inline]
    fn send_ack(&mut self, ack: Packet) {
        let entry = self.connections[ack.flow as usize].entry as usize;
        self.entries[entry].acks_sent += 1;
        self.send(ack);
    }

    #[inline]
    fn on_ack(&mut self, packet: &Packet) {
        let slot = packet.flow;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        entry.acks_arrived += 1;
        if packet.generation != connection.generation || connection.phase != Phase::Established {
            return;
        }
        connection.sender.on_ack(self.now, packet);
        if let Some(rtt) = connection.sender.rtt_sample() {
            entry.record_rtt(self.now, rtt);
        }
        if entry.may_fail {
            self.poll_controller_error(slot);
        }
        self.transmit(slot);
        self.on_progress(slot);
    }

    /// Send all that the connection may send now, and re-arm its timers.
    #[inline]
    pub(crate) fn transmit(&mut self, slot: u32) {
        let now = self.now;
        let mut sent = 0;
        while let Some(packet) = self.connections[slot as usize].sender.poll_transmit(now) {
            sent += 1;
            self.send(packet);
        }
        if sent > 0 {
            let entry = self.connections[slot as usize].entry as usize;
            self.entries[entry].sent += sent;
        }
        self.arm(slot, ConnectionTimer::Sender);
        self.arm(slot, ConnectionTimer::Pacing);
    }

    /// Make sure that the timer heap wakes this connection no later than its deadline.
    #[inline]
    pub(crate) fn arm(&mut self, slot: u32, timer: ConnectionTimer) {
        let connection = &mut self.connections[slot as usize];
        let deadline = connection.deadline(timer);
        if deadline < connection.scheduled[timer as usize] {
            connection.scheduled[timer as usize] = deadline;
            let kind = match timer {
                ConnectionTimer::Sender => TimerKind::Sender,
                ConnectionTimer::Pacing => TimerKind::Pacing,
                ConnectionTimer::DelayedAck => TimerKind::DelayedAck,
            };
            self.timers.push(deadline, timer_id(kind, slot));
        }
    }

    fn on_control(&mut self, packet: &Packet) {
        match packet.kind {
            Kind::Ping | Kind::Pong => return self.on_probe(packet),
            Kind::Datagram => return self.on_datagram(packet),
            _ => {}
        }
        let slot = packet.flow;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        if direction(packet.kind) == Direction::Forward {
            entry.arrived += 1;
        } else {
            entry.acks_arrived += 1;
        }
        if packet.generation != connection.generation || connection.phase == Phase::Closed {
            return;
        }
        match packet.kind {
            Kind::Syn => {
                let timestamps = entry.tcp().is_some_and(|tcp| tcp.timestamps);
                let mut reply = connection.control(Kind::SynAck, self.now, slot, timestamps);
                reply.timestamp = packet.timestamp;
                self.send_ack(reply);
            }
            Kind::SynAck => {
                if let Phase::SynSent { tries, .. } = connection.phase {
                    let rtt = (tries == 1).then(|| self.now - packet.timestamp);
                    self.establish(slot, rtt);
                }
            }
            Kind::Request => self.on_request(slot),
            _ => {}
        }
    }

    /// The connection is open: let the application write.
    pub(crate) fn establish(&mut self, slot: u32, rtt: Option<u64>) {
        let connection = &mut self.connections[slot as usize];
        connection.phase = Phase::Established;
        connection.sender.on_established(self.now, rtt);
        let size = connection.size;
        let entry = &mut self.entries[connection.entry as usize];
        let first_write = if size > 0 { size } else { entry.first_write() };
        if entry.may_fail {
            self.poll_controller_error(slot);
        }
        if first_write > 0 {
            self.connections[slot as usize].sender.write(first_write);
        }
        self.on_established(slot);
        self.transmit(slot);
    }

    fn poll_controller_error(&mut self, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        if let Some(message) = connection.sender.controller_mut().take_error()
            && self.failure.is_none()
        {
            let flow = self.entries[connection.entry as usize].id.clone();
            let partial = Box::new(Output::empty());
            self.failure = Some(RunError::Controller { flow, now_ns: self.now, message, partial });
        }
    }

    // ---- timers --------------------------------------------------------------------------------

    fn on_timer(&mut self, time: u64, id: u32) {
        let index = id & TIMER_MASK;
        match id >> TIMER_SHIFT {
            k if k == TimerKind::Sender as u32 => {
                self.on_connection_timer(time, index, ConnectionTimer::Sender)
            }
            k if k == TimerKind::Pacing as u32 => {
                self.on_connection_timer(time, index, ConnectionTimer::Pacing)
            }
            k if k == TimerKind::DelayedAck as u32 => {
                self.on_connection_timer(time, index, ConnectionTimer::DelayedAck);
            }
            k if k == TimerKind::LinkChange as u32 => self.on_link_change(index),
            k if k == TimerKind::Source as u32 => self.on_source_timer(index),
            k if k == TimerKind::Probe as u32 => self.on_probe_timer(index),
            k if k == TimerKind::Mark as u32 => self.on_mark(index),
            _ => self.on_tick(),
        }
    }

    fn on_connection_timer(&mut self, time: u64, slot: u32, timer: ConnectionTimer) {
        let connection = &mut self.connections[slot as usize];
        if connection.scheduled[timer as usize] != time {
            return;
        }
        connection.scheduled[timer as usize] = u64::MAX;
        if connection.deadline(timer) > time {
            self.arm(slot, timer);
            return;
        }
        if let Phase::SynSent { .. } = connection.phase {
            self.send_syn(slot);
            return;
        }
        if timer == ConnectionTimer::DelayedAck {
            if let Some(ack) = connection.receiver.on_timeout(time) {
                self.send_ack(ack);
            }
            self.arm(slot, timer);
            return;
        }
        connection.sender.on_timeout(time);
        if self.entries[connection.entry as usize].may_fail {
            self.poll_controller_error(slot);
        }
        self.transmit(slot);
    }

    pub(crate) fn send_syn(&mut self, slot: u32) {
        let now = self.now;
        let connection = &mut self.connections[slot as usize];
        let entry = &mut self.entries[connection.entry as usize];
        let timestamps = entry.tcp().is_some_and(|tcp| tcp.timestamps);
        if let Some(syn) = connection.syn(now, slot, timestamps) {
            entry.sent += 1;
            self.send(syn);
        }
        self.arm(slot, ConnectionTimer::Sender);
    }

    fn on_link_change(&mut self, index: u32) {
        let (link, change) = self.change(index);
        let now = self.now;
        let state = &mut self.links[link];
        if let Some(bps) = change.bps {
            self.recorder.on_rate_change(link, now, bps);
            if let Discipline::Stored(stored) = &mut state.discipline
                && let Server::Constant { transmitter, busy, .. } = &mut stored.server
            {
                let before = transmitter.free_at();
                transmitter.change(bps, now);
                if *busy && transmitter.free_at() != before {
                    self.hops.push(transmitter.free_at(), link as u32);
                }
            }
        }
        if let Some(delay) = change.delay_ns {
            state.delay = delay;
        }
        if let Some(loss) = change.loss
            && let Some(impairment) = &mut state.impairment
        {
            impairment.loss.set_law(loss);
        }
    }

    /// The `index`-th of all changes, counted over the links in order.
    fn change(&self, index: u32) -> (usize, crate::config::Change) {
        let mut index = index as usize;
        for (link, config) in self.config.links.iter().enumerate() {
            if index < config.changes.len() {
                return (link, config.changes[index].clone());
            }
            index -= config.changes.len();
        }
        unreachable!("change timers are made from the same list")
    }

    // ---- capture -------------------------------------------------------------------------------

    fn capture_link(&mut self, index: usize, event: &'static str, packet: &Packet) {
        if self.config.capture {
            let name = self.config.links[index].id.clone();
            self.capture(&name, event, packet);
        }
    }

    fn capture(&mut self, place: &str, event: &'static str, packet: &Packet) {
        if !self.config.capture {
            return;
        }
        let (flow, seq, ack) = if matches!(packet.kind, Kind::Ping | Kind::Pong) {
            (self.config.probes[packet.flow as usize].id.as_str(), packet.seq, 0)
        } else if packet.kind == Kind::Datagram {
            (self.entries[packet.flow as usize].id.as_str(), packet.seq, 0)
        } else {
            let connection = &self.connections[packet.flow as usize];
            let id = self.entries[connection.entry as usize].id.as_str();
            match packet.kind {
                Kind::Ack => (id, 0, connection.sender.byte_offset(packet.seq)),
                Kind::Data => (id, packet.aux[0], 0),
                _ => (id, packet.seq, 0),
            }
        };
        let flow = flow.to_owned();
        self.recorder.capture(self.now, place, &flow, event, packet, seq, ack);
    }
}
