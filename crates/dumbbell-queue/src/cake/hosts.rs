//! Which queue a packet goes to, and how many bulk flows its hosts have.
//!
//! Queues and hosts are found by set-associative hashing: the eight places of a set are tried, so that
//! flows seldom share a queue (RFC 8290 section 5.3 has the numbers).

use super::QUEUES;
use crate::Packet;
use crate::flow_queue::Salt;

const WAYS: usize = 8;

/// Fair between whom (tc-cake, "Flow isolation parameters").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isolation {
    key: Key,
    /// Flows share what their host gets.
    by_source: bool,
    by_destination: bool,
}

/// What has a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// One queue for all.
    All,
    Source,
    Destination,
    /// Each pair of hosts.
    Hosts,
    Flow,
}

impl Isolation {
    pub(crate) const NAMES: [&str; 8] = [
        "triple-isolate",
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
    ];

    pub(crate) fn named(name: &str) -> Self {
        let (key, by_source, by_destination) = match name {
            "flowblind" => (Key::All, false, false),
            "srchost" => (Key::Source, false, false),
            "dsthost" => (Key::Destination, false, false),
            "hosts" => (Key::Hosts, false, false),
            "flows" => (Key::Flow, false, false),
            "dual-srchost" => (Key::Flow, true, false),
            "dual-dsthost" => (Key::Flow, false, true),
            _ => (Key::Flow, true, true),
        };
        Self { key, by_source, by_destination }
    }

    /// Tag of the queue that a packet goes to; `None` where there is only one queue.
    pub(crate) fn tag(self, packet: &impl Packet, salt: Salt) -> Option<u32> {
        match self.key {
            Key::All => None,
            Key::Source => Some(salt.hash(packet.source())),
            Key::Destination => Some(salt.hash(packet.destination())),
            Key::Hosts => Some(salt.hash(salt.hash(packet.source()) ^ packet.destination())),
            Key::Flow => Some(salt.hash(packet.flow_hash())),
        }
    }
}

/// Tags of the places of a table.
#[derive(Clone, Debug)]
pub(crate) struct Tags(Vec<u32>);

/// What was found in the set of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The place has this tag already.
    Same(usize),
    /// A place that nobody uses.
    Free(usize),
    /// All are in use: the place is shared.
    Collision(usize),
}

impl Found {
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Same(place) | Self::Free(place) | Self::Collision(place) => place,
        }
    }
}

impl Tags {
    pub(crate) fn new() -> Self {
        Self(vec![0; QUEUES])
    }

    /// The place for a tag, which has the tag from now on.
    #[inline]
    pub(crate) fn find(&mut self, tag: u32, in_use: impl Fn(usize) -> bool) -> Found {
        // Zero is the tag of places that were never used.
        let tag = tag.max(1);
        let direct = tag as usize % QUEUES;
        if self.0[direct] == tag && in_use(direct) {
            return Found::Same(direct);
        }
        let set = direct - direct % WAYS;
        let ways = || (0..WAYS).map(|way| set + (direct + way) % WAYS);
        let found = if let Some(place) = ways().find(|&place| self.0[place] == tag) {
            Found::Same(place)
        } else if let Some(place) = ways().find(|&place| !in_use(place)) {
            Found::Free(place)
        } else {
            Found::Collision(direct)
        };
        self.0[found.place()] = tag;
        found
    }
}

/// Hosts on one side of the link.
#[derive(Clone, Debug)]
struct Side {
    tags: Tags,
    bulk_flows: Vec<u16>,
}

impl Side {
    fn new() -> Self {
        Self { tags: Tags::new(), bulk_flows: vec![0; QUEUES] }
    }

    fn find(&mut self, tag: u32) -> u16 {
        let Self { tags, bulk_flows } = self;
        tags.find(tag, |place| bulk_flows[place] > 0).place() as u16
    }
}

/// The hosts of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pair {
    source: u16,
    destination: u16,
}

/// Hosts of a tin.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    isolation: Isolation,
    sources: Side,
    destinations: Side,
}

impl Hosts {
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self { isolation, sources: Side::new(), destinations: Side::new() }
    }

    pub(crate) fn of(&mut self, packet: &impl Packet, salt: Salt) -> Pair {
        let mut pair = Pair::default();
        if self.isolation.by_source {
            pair.source = self.sources.find(salt.hash(packet.source()));
        }
        if self.isolation.by_destination {
            pair.destination = self.destinations.find(salt.hash(packet.destination()));
        }
        pair
    }

    /// A flow between these hosts becomes a bulk flow.
    pub(crate) fn add(&mut self, pair: Pair) {
        self.sources.bulk_flows[usize::from(pair.source)] += 1;
        self.destinations.bulk_flows[usize::from(pair.destination)] += 1;
    }

    pub(crate) fn remove(&mut self, pair: Pair) {
        self.sources.bulk_flows[usize::from(pair.source)] -= 1;
        self.destinations.bulk_flows[usize::from(pair.destination)] -= 1;
    }

    /// Among how many flows the host with more of them shares, at least one.
    pub(crate) fn load(&self, pair: Pair) -> u16 {
        let mut load = 1;
        if self.isolation.by_source {
            load = load.max(self.sources.bulk_flows[usize::from(pair.source)]);
        }
        if self.isolation.by_destination {
            load = load.max(self.destinations.bulk_flows[usize::from(pair.destination)]);
        }
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8290 section 5.3: of 100 flows on 1024 queues, 90.78 % have theirs to themselves with plain
    /// hashing, and about all with sets of eight.
    #[test]
    fn hundred_flows_do_not_collide() {
        let mut alone = 0;
        for seed in 0..1000 {
            let salt = Salt::new(seed);
            let mut tags = Tags::new();
            let mut used = vec![0_u32; QUEUES];
            for flow in 0..100 {
                let place = tags.find(salt.hash(flow), |place| used[place] > 0).place();
                used[place] += 1;
            }
            alone += used.iter().filter(|&&flows| flows == 1).count();
        }
        assert!(alone >= 99_990, "{alone} of 100 000");
    }

    /// Nine tags of one set: eight places, and the ninth shares its direct one. A place given up is
    /// found again by its tag.
    #[test]
    fn a_set_holds_eight() {
        let mut tags = Tags::new();
        let tag = |n: usize| (64 + 3 + n * QUEUES) as u32;
        let mut used = vec![false; QUEUES];
        for n in 0..8 {
            let found = tags.find(tag(n), |place| used[place]);
            assert_eq!(found, Found::Free(64 + (3 + n) % 8));
            used[found.place()] = true;
        }
        assert_eq!(tags.find(tag(1), |place| used[place]), Found::Same(68));
        assert_eq!(tags.find(tag(8), |place| used[place]), Found::Collision(67));
        used[68] = false;
        assert_eq!(tags.find(tag(1), |place| used[place]), Found::Same(68));
    }
}
