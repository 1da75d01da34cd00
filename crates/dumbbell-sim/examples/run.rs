//! Run a configuration file (the engine's JSON) and print the summary: for profiling without Python.

use std::ops::ControlFlow;
use std::time::Instant;

use dumbbell_sim::{Config, NoCustomControllers, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: run CONFIG.json")?;
    let config: Config = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let start = Instant::now();
    let output = run(&config, &NoCustomControllers, &mut |_| ControlFlow::Continue(()))?;
    let wall = start.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string_pretty(&output.summary)?);
    let totals = &output.summary.totals;
    eprintln!(
        "{} packets, {} events in {wall:.3} s: {:.2} M packets/s",
        totals.packets,
        totals.events,
        totals.packets as f64 / wall / 1e6
    );
    Ok(())
}
