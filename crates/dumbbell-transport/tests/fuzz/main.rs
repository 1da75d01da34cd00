//! Coverage-guided fuzzing of both ends of every transport (`make fuzz`): any options that it accepts, any
//! packets, losses, copies and forgeries, any times. Under `cargo test` each property runs for a second on
//! random bytes, and on what fuzzing has left in `__fuzz__`.

mod settings;
mod tcp;
mod world;

use bolero::check;
use dumbbell_transport::flow::{Ends, Pair};
use dumbbell_transport::registry::{ControllerChoice, Recipe, list};
use dumbbell_transport::rtp::controllers::list as media_controllers;
use serde_json::Map;
use settings::{Choice, chosen, source};
use world::{Change, Step, Way, World};

/// Bytes of one step.
type Code = [u8; 6];

/// Every byte string is a step, and most move packets.
fn decode([kind, a, b, c, d, e]: Code) -> Step {
    let change = Change { how: c, by: u64::from(d) << 8 | u64::from(e) };
    match kind % 16 {
        0..=2 => Step::Cross { way: Way::There, which: a, fate: b },
        3 | 4 => Step::Cross { way: Way::Back, which: a, fate: b },
        // All that is on its way, in order.
        5 | 6 => Step::Exchange { after: u64::from(a) << (b % 24) },
        7 | 8 => Step::NextTimeout,
        // Up to 73 minutes.
        9 => Step::Wait(u64::from(a) << (b % 35)),
        // Up to 16 MB, or without end.
        10 | 11 => Step::Write(if a == 255 { u64::MAX } else { u64::from(a) << (b % 17) }),
        12 => match a % 8 {
            0 => Step::Truncate,
            1 => Step::Wait(change.of(0)),
            _ => Step::SetRate(f64::from(b) * 10_f64.powi(i32::from(c % 16) - 2)),
        },
        13 => Step::SetRate(f64::from_bits(change.of(1_f64.to_bits()))),
        14 => Step::Forge { way: Way::There, which: a, fields: b, change },
        _ => Step::Forge { way: Way::Back, which: a, fields: b, change },
    }
}

/// A controller, its parameters, and options of the transport.
type Build = (u8, Vec<Choice>, Vec<Choice>);

/// Both ends of the transport called `kind`; none if its options or parameters do not go together.
fn pair(kind: &str, (controller, params, options): &Build) -> Option<Pair> {
    let info = list().into_iter().find(|info| info.name == kind).expect("it is in the registry");
    let controllers = match info.controllers {
        "window" => dumbbell_cc::list(),
        "media" => media_controllers(),
        _ => Vec::new(),
    };
    let options = chosen(&info.options, options);
    // One beyond the last: none is named.
    let named = controllers.get(usize::from(*controller) % (controllers.len() + 1));
    let params = named.map_or_else(Map::new, |info| chosen(&info.params, params));
    let choice = named.map(|info| ControllerChoice { kind: info.name, params: &params });
    let recipe = Recipe::new(kind, &options, choice).ok()?;
    Some(recipe.with_source(source(*controller)).build(&Ends { seed: 7, ..Ends::default() }))
}

fn keep_the_laws(kind: &str, reliable: bool, (build, codes): &(Build, Vec<Code>)) {
    if let Some(pair) = pair(kind, build) {
        World::new(pair, reliable).run(codes.iter().copied().map(decode));
    }
}

#[test]
fn any_steps_keep_the_laws_of_plt() {
    check!().with_type().for_each(|input| keep_the_laws("plt", true, input));
}

#[test]
fn any_steps_keep_the_laws_of_rap() {
    check!().with_type().for_each(|input| keep_the_laws("rap", false, input));
}

#[test]
fn any_steps_keep_the_laws_of_rtp() {
    check!().with_type().for_each(|input| keep_the_laws("rtp", false, input));
}

#[test]
fn any_steps_keep_the_laws_of_tfrc() {
    check!().with_type().for_each(|input| keep_the_laws("tfrc", false, input));
}

/// TCP is not in the registry.
#[test]
fn any_steps_keep_the_laws_of_tcp() {
    check!().with_type::<(u8, Vec<Choice>, tcp::Code, Vec<Code>)>().for_each(
        |(controller, params, code, codes)| {
            let controllers = dumbbell_cc::list();
            let info = &controllers[usize::from(*controller) % controllers.len()];
            let Ok(cc) = dumbbell_cc::build(info.name, &chosen(&info.params, params), 7) else {
                return;
            };
            let world = World::new(tcp::pair(cc, *code), true).believing();
            world.run(codes.iter().copied().map(decode));
        },
    );
}

#[test]
fn every_transport_has_a_target() {
    let names: Vec<_> = list().iter().map(|info| info.name).collect();
    assert_eq!(names, ["plt", "rap", "rtp", "tfrc"]);
}
