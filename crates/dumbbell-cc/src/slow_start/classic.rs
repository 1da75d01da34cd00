//! Slow start of RFC 5681, counting all bytes acked (Linux): the window doubles each round trip
//! however ACKs are batched.

use super::{SlowStart, View};
use crate::event::Ack;

#[derive(Clone, Copy, Debug, Default)]
pub struct Classic;

impl SlowStart for Classic {
    fn on_ack(&mut self, _ack: &Ack, _view: &View) -> bool {
        false
    }
}
