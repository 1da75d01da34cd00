//! Users: each thinks, connects, transfers one file to a destination of its choice, and thinks again
//! (the sources of MesoNet, NIST SP 500-282).
//!
//! A user has a random stream of its own, and draws the same numbers in the same order whatever
//! happens to its transfers: two runs that differ in the controller alone ask for the same files.

use crate::config::Users;
use crate::connection::{NO_USER, Phase};
use crate::engine::{Engine, TimerKind, timer_id};
use crate::random::Stream;
use crate::traffic::to_ns;

const NO_SLOT: u32 = u32::MAX;

pub(crate) struct User {
    stream: Stream,
    crowd: u32,
    /// Its connection while it has one.
    slot: u32,
    /// When its timer fires; an earlier entry in the heap is void.
    due: u64,
    file: u32,
    class: u32,
}

/// The users of one flow.
pub(crate) struct Crowd<'a> {
    config: &'a Users,
    pub(crate) entry: u32,
    /// Weights summed up to each destination and kind of file.
    destinations: Vec<f64>,
    files: Vec<f64>,
}

fn sums(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

/// Index drawn by weight.
fn choose(sums: &[f64], stream: &mut Stream) -> usize {
    let total = sums.last().copied().unwrap_or(0.0);
    let drawn = stream.uniform() * total;
    sums.partition_point(|&sum| sum <= drawn).min(sums.len().saturating_sub(1))
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(config: &'a Users, entry: u32) -> Self {
        Self {
            config,
            entry,
            destinations: sums(config.destinations.iter().map(|to| to.weight)),
            files: sums(config.files.iter().map(|file| file.weight)),
        }
    }

    pub(crate) fn group(&self) -> usize {
        self.config.group
    }

    pub(crate) fn count(&self) -> u64 {
        u64::from(self.config.count)
    }
}

impl Engine<'_> {
    /// The flow starts: its users come into being.
    pub(crate) fn start_users(&mut self, entry: u32) {
        let Some(crowd) = self.entries[entry as usize].crowd else { return };
        let config = self.crowds[crowd as usize].config;
        let id = self.entries[entry as usize].id().to_owned();
        let mut starts: Vec<f64> = sums(config.starts.iter().map(|group| group.share));
        starts.push(1.0);
        for number in 0..config.count {
            let stream = Stream::new(self.config.seed, &format!("{id}/user/{number}"));
            let user = self.users.len() as u32;
            self.users.push(User {
                stream,
                crowd,
                slot: NO_SLOT,
                due: u64::MAX,
                file: 0,
                class: 0,
            });
            let drawn = self.users[user as usize].stream.uniform();
            let group = starts.partition_point(|&sum| sum <= drawn);
            match config.starts.get(group) {
                Some(group) => self.wake(user, self.now.max(group.at_ns)),
                None => self.think(user),
            }
        }
    }

    fn wake(&mut self, user: u32, at: u64) {
        self.users[user as usize].due = at;
        self.timers.push(at, timer_id(TimerKind::User, user));
    }

    fn think(&mut self, user: u32) {
        let state = &mut self.users[user as usize];
        let crowd = &self.crowds[state.crowd as usize];
        let think = to_ns(state.stream.draw(&crowd.config.think));
        self.wake(user, self.now.saturating_add(think));
    }

    pub(crate) fn on_user_timer(&mut self, user: u32) {
        let state = &self.users[user as usize];
        if state.due != self.now {
            return;
        }
        let slot = state.slot;
        if slot == NO_SLOT {
            self.begin_transfer(user);
        } else {
            self.leave_user(slot, |counts| counts.gave_up += 1);
            self.close(slot);
        }
    }

    fn begin_transfer(&mut self, index: u32) {
        let now = self.now;
        let user = &mut self.users[index as usize];
        let crowd = &self.crowds[user.crowd as usize];
        if self.entries[crowd.entry as usize].source.stopped {
            return;
        }
        let file = &crowd.config.files[choose(&crowd.files, &mut user.stream)];
        let mut size = user.stream.draw(&file.size);
        let to = crowd.config.destinations[choose(&crowd.destinations, &mut user.stream)];
        let patience = crowd.config.patience.as_ref().map(|law| to_ns(user.stream.draw(law)));
        for surge in &crowd.config.surges {
            if surge.class == to.class && (surge.from_ns..surge.to_ns).contains(&now) {
                size *= surge.factor;
            }
        }
        user.file = file.file as u32;
        user.class = to.class as u32;
        user.due = u64::MAX;
        let place = self.place(crowd.entry, to.path as u32);
        self.count(index, |counts| counts.started += 1);
        if let Some(patience) = patience {
            self.wake(index, now.saturating_add(patience.max(1)));
        }
        self.open_for(index, place, (size as u64).max(1));
    }

    /// A user's connection has this slot.
    pub(crate) fn on_user_opened(&mut self, user: u32, slot: u32) {
        self.users[user as usize].slot = slot;
    }

    /// Everything was acknowledged.
    pub(crate) fn on_user_done(&mut self, slot: u32) {
        let connection = &self.connections[slot as usize];
        let user = &self.users[connection.user as usize];
        let group = self.crowds[user.crowd as usize].group();
        let (file, class) = (user.file as usize, user.class as usize);
        let (bytes, duration) = (connection.size, self.now - connection.established);
        let now = self.now;
        self.entries[connection.entry as usize].completed += 1;
        if let Some(recorder) = &mut self.user_recorder {
            recorder.on_transfer(now, [group, file, class], bytes, duration);
        }
        self.leave_user(slot, |counts| counts.completed += 1);
    }

    /// No SYN was answered.
    pub(crate) fn on_user_refused(&mut self, slot: u32) {
        self.leave_user(slot, |counts| counts.failed += 1);
    }

    /// A user is done with its connection, which is closed next.
    fn leave_user(&mut self, slot: u32, count: impl FnOnce(&mut crate::user_record::Counts)) {
        let user = self.connections[slot as usize].user;
        self.users[user as usize].slot = NO_SLOT;
        self.count(user, count);
        self.think(user);
    }

    fn count(&mut self, user: u32, count: impl FnOnce(&mut crate::user_record::Counts)) {
        let crowd = &self.crowds[self.users[user as usize].crowd as usize];
        if let Some(recorder) = &mut self.user_recorder {
            count(recorder.counts(crowd.group()));
        }
    }

    pub(crate) fn count_syn(&mut self, slot: u32) {
        let user = self.connections[slot as usize].user;
        if user != NO_USER {
            self.count(user, |counts| counts.syns += 1);
        }
    }

    pub(crate) fn count_connected(&mut self, slot: u32) {
        let connection = &self.connections[slot as usize];
        if connection.user != NO_USER && connection.phase == Phase::Established {
            self.count(connection.user, |counts| counts.connected += 1);
        }
    }
}
