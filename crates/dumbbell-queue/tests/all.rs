//! All tests of queues in one binary: each would compile and link what they share for itself.

#[path = "common/closed_loop.rs"]
mod closed_loop;
mod common;
#[path = "common/router.rs"]
mod router;

mod abc;
mod bls;
mod cake;
mod cnq;
mod cobalt;
mod codel;
mod csfq;
mod diffserv;
mod drr;
mod dualpi2;
mod fifo;
mod fq_cobalt;
mod fq_codel;
mod fq_pie;
mod htb;
mod lfq;
mod parameters;
mod pi2;
mod pie;
mod prio;
mod red;
mod registry;
mod sce;
mod sfb;
mod sfq;
mod step;
mod tbf;
mod wfq;
mod wrr;
mod xcp;

/// A file that is not named above would not be run.
#[test]
fn every_file_is_here() {
    let here = include_str!("all.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_file() && !["all", "fuzz"].contains(&name) {
            assert!(here.contains(&format!("\nmod {name};")), "{name}");
        }
    }
}
