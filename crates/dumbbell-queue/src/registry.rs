//! The queue disciplines by name.

use serde_json::{Map, Value};

pub use crate::params::{BuildError, ParamInfo, QueueInfo, Unit};
use crate::params::{Values, hint};
use crate::{Built, Packet};

/// Each module named here has `info()` and `build()`.
macro_rules! queues {
    ($($module:ident),+) => {
        /// Every discipline, with its parameters and their defaults.
        pub fn list() -> Vec<QueueInfo> {
            vec![$(crate::$module::info()),+]
        }

        /// Makes the queue called `kind`. `params` hold canonical numbers (ns, bytes, packets, bit/s);
        /// `seed` salts hashes and feeds random streams, so each queue should get its own.
        pub fn build<P: Packet + Send + 'static>(
            kind: &str,
            params: &Map<String, Value>,
            seed: u64,
        ) -> Built<P> {
            $(
                let info = crate::$module::info();
                if info.name == kind {
                    return crate::$module::build(&Values::check(&info, params)?, seed);
                }
            )+
            let names: Vec<&str> = list().iter().map(|info| info.name).collect();
            Err(BuildError::UnknownKind {
                kind: kind.to_owned(),
                hint: hint(kind, &names),
            })
        }
    };
}

queues!(
    fifo, codel, cobalt, pie, pi2, dualpi2, red, step, sfb, sfq, drr, wrr, wfq, fq_codel, fq_pie,
    fq_cobalt, cake, prio, htb, tbf, sce, cnq, lfq, diffserv, bls, abc, csfq, xcp
);
