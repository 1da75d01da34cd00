//! Groups of packets that were sent together, and how their spacing changed on the way (draft
//! section 5.2; libwebrtc's inter-arrival filter).

use dumbbell_queue::Nanos;

/// A group that packets keep joining as a burst ends after this long (libwebrtc).
const LONGEST_BURST: i64 = 100_000_000;

/// What one group of packets took longer than the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variation {
    /// Since the group before left, ms.
    pub(super) departure: f64,
    /// d(i), ms.
    pub(super) delay: f64,
    /// Of the group's last packet, by the receiver's clock, ms since the first group's.
    pub(super) arrival: f64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Nanos,
    last_sent: Nanos,
    first_arrival: Nanos,
    last_arrival: Nanos,
}

impl Group {
    fn of(sent: Nanos, arrival: Nanos) -> Self {
        Self { first_sent: sent, last_sent: sent, first_arrival: arrival, last_arrival: arrival }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Groups {
    burst: i64,
    began: Option<Nanos>,
    current: Option<Group>,
    previous: Option<Group>,
}

fn between(from: Nanos, to: Nanos) -> i64 {
    to.wrapping_sub(from) as i64
}

fn millis(time: i64) -> f64 {
    time as f64 / 1e6
}

impl Groups {
    pub(super) fn new(burst: Nanos) -> Self {
        Self { burst: burst as i64, began: None, current: None, previous: None }
    }

    /// A packet has arrived; by the order of sending. Tells of a group when the next one begins.
    pub(super) fn add(&mut self, sent: Nanos, arrival: Nanos) -> Option<Variation> {
        let Some(current) = &mut self.current else {
            self.current = Some(Group::of(sent, arrival));
            return None;
        };
        if between(current.first_sent, sent) < 0 {
            return None;
        }
        let joins = between(current.first_sent, sent) <= self.burst
            || Self::in_burst(current, sent, arrival, self.burst);
        if joins {
            current.last_sent = sent;
            if between(current.last_arrival, arrival) > 0 {
                current.last_arrival = arrival;
            }
            return None;
        }
        let complete = self.current.replace(Group::of(sent, arrival))?;
        let previous = self.previous.replace(complete)?;
        let departure = between(previous.last_sent, complete.last_sent);
        let arrived = between(previous.last_arrival, complete.last_arrival);
        let began = *self.began.get_or_insert(complete.last_arrival);
        Some(Variation {
            departure: millis(departure),
            delay: millis(arrived) - millis(departure),
            arrival: millis(between(began, complete.last_arrival)),
        })
    }

    /// Packets that waited together come out together.
    fn in_burst(group: &Group, sent: Nanos, arrival: Nanos, burst: i64) -> bool {
        let later = between(group.last_arrival, arrival);
        let departed = between(group.last_sent, sent);
        later.saturating_sub(departed) < 0
            && later <= burst
            && between(group.first_arrival, arrival) < LONGEST_BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn variations(packets: &[(u64, u64)]) -> Vec<(f64, f64)> {
        let mut groups = Groups::new(5 * MS);
        packets
            .iter()
            .filter_map(|&(sent, arrival)| groups.add(sent * MS, arrival * MS))
            .map(|v| (v.departure, v.delay))
            .collect()
    }

    /// Groups of packets sent within 5 ms; last packets leave at 2, 35, 67 ms and arrive at 53, 88,
    /// 125 ms: d = 35 - 33 and 37 - 32.
    #[test]
    fn delay_varies_from_group_to_group_by_their_last_packets() {
        let told =
            variations(&[(0, 50), (2, 53), (33, 84), (35, 88), (66, 121), (67, 125), (100, 158)]);
        assert_eq!(told, [(33.0, 2.0), (32.0, 5.0)]);
    }

    /// Sent 33 ms apart, but stuck and then delivered within 5 ms of each other: one group.
    #[test]
    fn packets_that_were_stuck_together_are_one_group() {
        let told = variations(&[(0, 50), (33, 150), (66, 153), (99, 156), (133, 183), (166, 216)]);
        assert_eq!(told, [(99.0, 7.0), (34.0, -7.0)]);
    }

    /// A constant offset between the clocks changes nothing.
    #[test]
    fn clocks_need_not_agree() {
        let mut near = Groups::new(5 * MS);
        let mut far = Groups::new(5 * MS);
        for packet in 0..50 {
            let (sent, arrival) = (packet * 20 * MS, packet * 21 * MS + 30 * MS);
            assert_eq!(near.add(sent, arrival), far.add(sent, arrival + 1_000_000 * MS));
        }
    }
}
