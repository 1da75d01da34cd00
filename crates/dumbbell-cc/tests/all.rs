//! All tests of controllers in one binary: each would compile and link what they share for itself.

mod common;

mod bbr;
mod bbr3;
mod coupling;
mod delay;
mod delay_aware;
mod high_speed;
mod kernel;
mod loss_based;
mod marks;
mod properties;
mod registry;
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
