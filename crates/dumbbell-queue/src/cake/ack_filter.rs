//! ACK filter: drops pure ACKs that later ones in the same queue make needless.

use crate::Packet;
use crate::pool::{Chain, Place, Pool};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckFilter {
    /// Leaves one needless ACK before the newest.
    Normal,
    /// Also drops a single one right before the newest.
    Aggressive,
}

impl AckFilter {
    pub(crate) const NAMES: [&str; 3] = ["off", "on", "aggressive"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "on" => Some(Self::Normal),
            "aggressive" => Some(Self::Aggressive),
            _ => None,
        }
    }

    /// The packet that the last one of a queue, which has just come, allows to drop.
    pub(crate) fn find<P: Packet>(self, pool: &Pool<P>, chain: Chain) -> Option<Place> {
        let newest = pool.last(chain)?;
        let mut candidate: Option<(Place, &P)> = None;
        let mut adjacent = false;
        let mut packets = pool.iter(chain).peekable();
        while let Some((place, packet)) = packets.next() {
            // The newest itself.
            if packets.peek().is_none() {
                break;
            }
            adjacent = packet.is_superseded_by(newest);
            if adjacent {
                match candidate {
                    // The oldest of two goes, if it says nothing that the other does not.
                    Some((oldest, ack)) if ack.is_superseded_by(packet) => return Some(oldest),
                    _ => candidate = Some((place, packet)),
                }
            }
        }
        let (place, _) = candidate?;
        (self == Self::Aggressive && adjacent).then_some(place)
    }
}
