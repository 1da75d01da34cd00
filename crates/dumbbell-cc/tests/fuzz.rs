//! Coverage-guided fuzzing of event sequences (`make fuzz`). Under `cargo test` the same property runs
//! for a second on random bytes, and on what fuzzing has left in `__fuzz__`.

mod common;

use bolero::check;
use common::MSS;
use common::events::{Marks, Step, World, assert_usable, variants};
use dumbbell_cc::{EcnMode, Start, build};

/// Bytes of one event.
type Code = [u8; 10];

/// Every byte string is an event, and most are ACKs.
fn decode(code: Code) -> Step {
    let [kind, flags, a, b, c, d, e, f, g, h] = code;
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let wide = |high: u8, low: u8| u64::from(high) << 8 | u64::from(low);
    match kind % 16 {
        0 => Step::Congestion { ecn: flag(0) },
        1 => Step::Rto { first: flag(0) },
        2 => Step::Undo { timeout: flag(0) },
        3 => Step::Exit,
        // From 1 us to 18 hours.
        4 => Step::Idle {
            idle: (wide(a, b) + 1) << (10 + c % 25),
            app_limited: flag(0),
            restart: flag(1),
        },
        _ => Step::Ack {
            segments: wide(a, b) % 2000,
            rtt: flag(0).then(|| (wide(c, d) + 1) << (e % 33)),
            state: g % 5,
            limited: flag(1),
            advances: flag(2),
            lost: u64::from(if flag(3) { f } else { 0 }),
            wait: wide(h, e) << 10,
            marks: match flags >> 4 {
                0..=8 => Marks::None,
                9..=12 => Marks::Ce(f),
                13 => Marks::Sce,
                // Up to 3e13 either way.
                14 => Marks::Feedback(f64::from(wide(f, h) as i16) * 10_f64.powi((e % 10).into())),
                _ => Marks::Failed,
            },
        },
    }
}

#[test]
fn any_events_leave_a_controller_usable() {
    let variants = variants();
    check!().with_type::<(u16, u8, Vec<Code>)>().for_each(|(variant, mode, codes)| {
        let (kind, params) = &variants[usize::from(*variant) % variants.len()];
        let mut cc = build(kind, params, 3).expect("variants are valid");
        cc.on_start(&Start {
            now: 0,
            mss: MSS,
            initial_window: 10 * u64::from(MSS),
            rtt: Some(40_000_000),
            ecn: EcnMode::ALL[usize::from(*mode) % EcnMode::ALL.len()],
        });
        let mut world = World::default();
        for &code in codes {
            let step = decode(code);
            world.apply(cc.as_mut(), &step);
            assert_usable(cc.as_ref(), kind, &step);
        }
    });
}
