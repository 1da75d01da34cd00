//! The strong ACK: which packets of the low class have arrived.
//!
//! It names each packet, so the sender never has to guess. A packet of the simulator has room for the
//! last 128 of them and the cumulative ACK of the connection's bytes; each arrival is repeated in the
//! next 127 strong ACKs. (A bitmap of 256 packets would be the reconstruction's minimum; fewer matter
//! only where more than 127 strong ACKs in a row are lost, and then the data ACK and retransmissions
//! make good for it.) The answer to a probe packet gives up the older half of the bitmap for the time
//! of its arrival.

use dumbbell_queue::Nanos;

use crate::flow::Ends;
use crate::{Kind, Packet};

/// Packets that a strong ACK tells of.
pub(super) const SPAN: u64 = 128;
/// Headers of IP and UDP, id, echo, bitmap, data ACK and window.
const BYTES: u16 = 28 + 8 + 8 + 16 + 8 + 4;
/// Flags of a strong ACK, in the place that data has for others: it answers a probe packet, and one of
/// the high class.
const PROBE: u8 = 1 << 6;
const HIGH: u8 = 1 << 7;

/// Which class a packet of a probe train travels in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Low,
    High,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StrongAck {
    /// Highest id that has arrived.
    pub(super) highest: u64,
    /// Bit n: `highest - n` has arrived.
    pub(super) received: u128,
    /// Send time of the packet that it answers.
    pub(super) echo: Nanos,
    /// Bytes of the connection received in order.
    pub(super) data_ack: u64,
    /// Receive window in units of its scale.
    pub(super) window: u16,
    /// Class and time of arrival of a packet of a probe train.
    pub(super) probe: Option<(Class, Nanos)>,
}

impl StrongAck {
    pub(super) fn encode(&self, ends: &Ends) -> Packet {
        let mut packet = ends.packet(Kind::StrongAck, BYTES, 0, self.echo);
        packet.payload = self.window;
        packet.seq = self.highest;
        packet.aux = [self.received as u64, (self.received >> 64) as u64, self.data_ack];
        if let Some((class, at)) = self.probe {
            packet.flags |= PROBE | if class == Class::High { HIGH } else { 0 };
            packet.aux[1] = at;
        }
        packet
    }

    pub(super) fn decode(packet: &Packet) -> Self {
        let [low, second, data_ack] = packet.aux;
        let is_probe = packet.flags & PROBE != 0;
        let class = if packet.flags & HIGH != 0 { Class::High } else { Class::Low };
        Self {
            highest: packet.seq,
            received: u128::from(low) | if is_probe { 0 } else { u128::from(second) << 64 },
            echo: packet.timestamp,
            data_ack,
            window: packet.payload,
            probe: is_probe.then_some((class, second)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn survives_the_way(
            highest: u64, received: u128, echo: u64, data_ack: u64, window: u16,
            probe: Option<(bool, u64)>,
        ) {
            let class = |high| if high { Class::High } else { Class::Low };
            let probe = probe.map(|(high, at)| (class(high), at));
            let ack = StrongAck { highest, received, echo, data_ack, window, probe };
            let arrived = StrongAck::decode(&ack.encode(&Ends::default()));
            let kept = if probe.is_some() { received & u128::from(u64::MAX) } else { received };
            prop_assert_eq!(arrived, StrongAck { received: kept, ..ack });
        }
    }
}
