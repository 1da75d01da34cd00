//! The classes of a scheduler: which packet belongs to which, and a queue for each.

use crate::params::{ParamInfo, Unit, Values, child_seed};
use crate::{
    Amount, BuildError, Counters, Dequeued, Dropped, Enqueued, Nanos, Packet, QueueDiscipline,
};

/// Values of the DSCP field.
pub(crate) const DSCPS: usize = 64;

/// The queue of one class. Schedulers look at its next packet before they decide, so that one may
/// have been taken out of the queue already.
pub(crate) struct Class<P> {
    queue: Box<dyn QueueDiscipline<P>>,
    held: Option<P>,
}

/// What a class could send now.
pub(crate) enum Next<'a, P> {
    Packet(&'a P),
    /// Nothing before this time.
    Wait(Nanos),
    Empty,
}

impl<P: Packet> Class<P> {
    pub(crate) fn new(queue: Box<dyn QueueDiscipline<P>>) -> Self {
        Self { queue, held: None }
    }

    pub(crate) fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.queue.enqueue(now, packet, dropped)
    }

    /// The packet that [`Self::take`] would give. Packets that the class's queue drops on the way are
    /// pushed to `dropped`.
    pub(crate) fn next(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Next<'_, P> {
        if self.held.is_none() {
            match self.queue.dequeue(now, dropped) {
                Dequeued::Packet(packet) => self.held = Some(packet),
                Dequeued::Wait(until) => return Next::Wait(until),
                Dequeued::Empty => {}
            }
        }
        self.held.as_ref().map_or(Next::Empty, Next::Packet)
    }

    pub(crate) fn take(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        match self.held.take() {
            Some(packet) => Dequeued::Packet(packet),
            None => self.queue.dequeue(now, dropped),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_none() && self.queue.backlog_packets() == 0
    }

    pub(crate) fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.queue.record(now, out);
    }

    pub(crate) fn backlog(&self) -> Amount {
        let one = |packet: &P| Amount { packets: 1, bytes: u64::from(packet.bytes()) };
        self.queue.backlog() + self.held.as_ref().map(one).unwrap_or_default()
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.queue.counters();
        counters.dequeued -= u64::from(self.held.is_some());
        counters
    }
}

/// What every class takes beside the parameters of its scheduler.
pub(crate) fn info() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "dscp",
            Unit::Dscps,
            serde_json::json!([]),
            "Its packets by DSCP; what no class names goes to the last",
        ),
        ParamInfo::child("queue", "The queue of the class"),
    ]
}

/// All classes of a scheduler.
pub(crate) struct Classes<P> {
    classes: Vec<Class<P>>,
    /// Class of each DSCP.
    by_dscp: [u16; DSCPS],
}

impl<P: Packet + Send + 'static> Classes<P> {
    /// One class for each of `values`, which have the parameters of [`info`].
    ///
    /// # Errors
    /// No class, a DSCP in two classes, a queue that cannot be built.
    pub(crate) fn build(parent: &Values, values: &[Values], seed: u64) -> Result<Self, BuildError> {
        if values.is_empty() || values.len() > usize::from(u16::MAX) {
            return Err(parent.invalid("classes", "at least one class"));
        }
        let last = (values.len() - 1) as u16;
        let mut by_dscp = [last; DSCPS];
        let mut named = [false; DSCPS];
        let mut classes = Vec::with_capacity(values.len());
        for (index, class) in values.iter().enumerate() {
            for dscp in class.dscps("dscp").into_iter().map(usize::from) {
                if std::mem::replace(&mut named[dscp], true) {
                    return Err(class.invalid("dscp", format!("DSCP {dscp} in one class only")));
                }
                by_dscp[dscp] = index as u16;
            }
            let queue = class
                .child("queue", child_seed(seed, index))
                .map_err(|error| error.within(format!("classes[{index}]")))?;
            classes.push(Class::new(queue));
        }
        Ok(Self { classes, by_dscp })
    }
}

impl<P: Packet> Classes<P> {
    /// Classes whose queues are not named by parameters, and the class of each DSCP.
    pub(crate) fn of_queues(
        queues: Vec<Box<dyn QueueDiscipline<P>>>,
        by_dscp: [u16; DSCPS],
    ) -> Self {
        let classes = queues.into_iter().map(Class::new).collect();
        Self { classes, by_dscp }
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    pub(crate) fn of(&self, packet: &P) -> usize {
        usize::from(self.by_dscp[usize::from(packet.dscp()) % DSCPS])
    }

    pub(crate) fn get(&mut self, index: usize) -> &mut Class<P> {
        &mut self.classes[index]
    }

    /// Offers a packet to its class; gives the class too.
    pub(crate) fn enqueue(
        &mut self,
        now: Nanos,
        packet: P,
        dropped: &mut Dropped<P>,
    ) -> (usize, Enqueued) {
        let index = self.of(&packet);
        (index, self.classes[index].enqueue(now, packet, dropped))
    }

    pub(crate) fn backlog(&self) -> Amount {
        self.classes.iter().map(Class::backlog).fold(Amount::default(), |sum, held| sum + held)
    }

    /// Sum over the classes.
    pub(crate) fn counters(&self) -> Counters {
        self.classes.iter().map(Class::counters).fold(Counters::default(), |sum, c| sum + c)
    }

    /// The variables of each class's queue, and its backlog.
    pub(crate) fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        for (index, class) in self.classes.iter_mut().enumerate() {
            out(&format!("class{index}.backlog_packets"), class.backlog().packets as f64);
            class.record(now, &mut |name, value| out(&format!("class{index}.{name}"), value));
        }
    }
}
