//! XCP at both ends: the congestion header that the sender writes, and the feedback that the receiver
//! returns (draft-falk-xcp-spec-03).

use dumbbell_cc::Nanos;
use dumbbell_queue::Packet as _;

use super::CONGESTION_HEADER_BYTES;
use crate::{Packet, flags};

/// The receiver's end.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    /// Of the data since the last ACK, bytes per second.
    sum: f64,
}

impl Feedback {
    /// Take the routers' answer from data. An unbounded one is what the sender has asked for: no router
    /// on the way has answered.
    pub(super) fn on_data(&mut self, packet: &Packet) {
        if let Some(header) = packet.congestion_header()
            && header.feedback.is_finite()
        {
            self.sum += f64::from(header.feedback);
        }
    }

    /// Write the sum into an ACK that has its SACK blocks.
    pub(super) fn stamp(&mut self, ack: &mut Packet) {
        ack.flags |= flags::FEEDBACK;
        ack.aux[2] = self.sum.to_bits();
        ack.ip_bytes += CONGESTION_HEADER_BYTES;
        self.sum = 0.0;
    }
}

/// The sender's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Bytes per second of whole packets.
    rate: f64,
    /// Of a full segment.
    payload: f64,
    packet: f64,
}

impl Request {
    /// `rate` in payload bytes per second; `header` without the congestion header.
    pub(super) fn new(rate: f64, mss: u16, header: u16) -> Self {
        let payload = f64::from(mss);
        let packet = payload + f64::from(header + CONGESTION_HEADER_BYTES);
        Self { rate: rate * packet / payload, payload, packet }
    }

    /// Write the header of data: the rate is a window in a round-trip time, and each packet of the window
    /// asks for its part of what the rate lacks (section 3.3 of the paper). A sender that does not know
    /// its round-trip time asks for nothing.
    pub(super) fn stamp(&self, data: &mut Packet, window: u64, srtt: Nanos) {
        data.ip_bytes += CONGESTION_HEADER_BYTES;
        data.set_rtt(srtt);
        if srtt == 0 {
            data.set_congestion_header(0.0, 0.0);
            return;
        }
        let segments = window as f64;
        let throughput = segments * self.packet * 1e9 / srtt as f64;
        let feedback = (self.rate - throughput) / segments;
        data.set_congestion_header(throughput as f32, feedback as f32);
    }

    /// The feedback of an ACK in payload bytes per second.
    pub(super) fn read(&self, ack: &Packet) -> f64 {
        if ack.flags & flags::FEEDBACK == 0 {
            return 0.0;
        }
        f64::from_bits(ack.aux[2]) * self.payload / self.packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(segment: u16) -> Packet {
        Packet { ip_bytes: segment + 52, payload: segment, ..Packet::default() }
    }

    /// Section 3.3 of the paper: (r rtt - cwnd) divided by the packets of the window, as a rate. Ten
    /// packets of 1072 bytes in 100 ms are 107,200 bytes/s; 200,000 bytes/s of payload are 214,400 with
    /// the headers; each of the ten packets asks for a tenth of what is lacking.
    #[test]
    fn packets_of_a_window_share_the_request() {
        let request = Request::new(200_000.0, 1000, 52);
        let mut packet = data(1000);
        packet.set_hosts(7, 9);
        request.stamp(&mut packet, 10, 100_000_000);
        let header = packet.congestion_header().unwrap();
        assert_eq!((header.rtt, header.throughput, header.feedback), (0.1, 107_200.0, 10_720.0));
        assert_eq!((packet.ip_bytes, packet.rtt()), (1072, 100_000_000));
        // What else shares the words is untouched, and a label would overwrite the throughput.
        packet.set_label(1.0);
        assert_eq!((packet.source(), packet.destination(), packet.label()), (7, 9, 0.0));
        assert_eq!(packet.congestion_header(), Some(header));
    }

    /// The sum of what the segments of an ACK carry comes back, as payload; what no router has answered
    /// does not, nor what a sender without round-trip time wrote.
    #[test]
    fn feedback_adds_up_between_acks() {
        let request = Request::new(f64::INFINITY, 1000, 52);
        let mut receiver = Feedback::default();
        for feedback in [Some(1072.0), Some(-536.0), None, Some(2144.0)] {
            let mut packet = data(1000);
            request.stamp(&mut packet, 10, 100_000_000);
            assert_eq!(packet.congestion_header().unwrap().feedback, f32::INFINITY);
            if let Some(feedback) = feedback {
                packet.set_feedback(feedback);
            }
            receiver.on_data(&packet);
        }
        let mut unknown = data(1000);
        request.stamp(&mut unknown, 10, 0);
        let header = unknown.congestion_header().unwrap();
        assert_eq!((header.rtt, header.throughput, header.feedback), (0.0, 0.0, 0.0));
        receiver.on_data(&unknown);
        let mut ack = Packet { ip_bytes: 52, aux: [2 << 32 | 1, 4 << 32 | 1, 0], ..data(0) };
        receiver.stamp(&mut ack);
        assert_eq!((request.read(&ack), ack.ip_bytes), (2500.0, 72));
        assert_eq!(ack.sack_blocks().count(), 2);
        receiver.stamp(&mut ack);
        assert_eq!(request.read(&ack), 0.0);
        assert_eq!(request.read(&Packet::default()), 0.0);
    }
}
