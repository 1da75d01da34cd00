//! The router of the DiffServ tests: a link at 10 Mbit/s with Poisson EF traffic, and AF and DF
//! that always have packets waiting. All packets have 1500 bytes.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;

use dumbbell_queue::{Dequeued, Dropped, Nanos, Packet};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

use super::common::{Queue, TestPacket};

pub const RATE: u64 = 10_000_000;
pub const MTU: u32 = 1500;
/// Time of a packet on the link.
pub const PACKET_TIME: Nanos = 1_200_000;
pub const EF: u8 = 46;
pub const AF11: u8 = 10;
pub const DF: u8 = 0;
/// Packets that AF and DF keep waiting.
const WAITING: u64 = 4;

/// What left the router.
#[derive(Debug, Default)]
pub struct Departures {
    packets: BTreeMap<u8, u64>,
    total: Nanos,
    /// Waiting times of EF packets.
    pub ef_waits: Vec<Nanos>,
}

impl Departures {
    /// Share of the link that a DSCP took, in percent.
    pub fn percent(&self, dscp: u8) -> f64 {
        let packets = self.packets.get(&dscp).copied().unwrap_or_default();
        (packets * PACKET_TIME) as f64 / self.total as f64 * 100.0
    }

    /// The waiting time that all but so many of a thousand EF packets stay within.
    pub fn ef_wait(&self, per_mille: usize) -> Nanos {
        let mut waits = self.ef_waits.clone();
        waits.sort_unstable();
        waits[(waits.len() - 1) * (1000 - per_mille) / 1000]
    }
}

/// Exponential with a mean.
fn exponential(random: &mut Pcg32, mean: f64) -> Nanos {
    let uniform = (f64::from(random.next_u32()) + 1.0) / 4_294_967_297.0;
    (-uniform.ln() * mean) as Nanos
}

/// Runs the router for a time, with EF at a share of the link's rate.
pub fn run(queue: &mut Queue, ef_share: f64, seconds: u64) -> Departures {
    let mut random = Pcg32::seed_from_u64(1);
    let mut dropped = Dropped::new();
    let mean = PACKET_TIME as f64 / ef_share;
    let mut next_ef = exponential(&mut random, mean);
    let mut waiting = BTreeMap::from([(AF11, 0), (DF, 0)]);
    let mut departures = Departures::default();
    let mut seq = 0;
    let mut now = 0;
    while now < seconds * 1_000_000_000 {
        while next_ef <= now {
            queue.enqueue(next_ef, TestPacket::new(1, seq, MTU).with_dscp(EF), &mut dropped);
            seq += 1;
            next_ef += exponential(&mut random, mean);
        }
        for (&dscp, count) in &mut waiting {
            while *count < WAITING {
                let packet = TestPacket::new(u32::from(dscp), seq, MTU).with_dscp(dscp);
                queue.enqueue(now, packet, &mut dropped);
                seq += 1;
                *count += 1;
            }
        }
        if let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped) {
            *departures.packets.entry(packet.dscp).or_default() += 1;
            if let Some(count) = waiting.get_mut(&packet.dscp) {
                *count -= 1;
            } else {
                departures.ef_waits.push(now - packet.enqueued_at());
            }
        }
        now += PACKET_TIME;
    }
    departures.total = now;
    departures
}
