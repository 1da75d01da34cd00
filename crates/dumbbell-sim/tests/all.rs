//! All tests of the engine in one binary: each would compile and link what they share for itself.

mod common;

mod coupling;
mod coupling_windows;
mod invariants;
mod shortcuts;
mod traffic;
mod users;
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
