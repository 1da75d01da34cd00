//! BBR version 3 by hand-made ACKs.
