//! What a viewer gets: frames captured and completed, joined; freezes.
//!
//! A frame is shown when its last packet arrives, unless a later one was shown before: there is no
//! play-out buffer, and no frame needs another one to be decoded.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;
use serde::Serialize;

const SECOND: f64 = 1e9;
/// A freeze (webrtc-stats, `freezeCount`): a frame is shown for at least `max(3 * mean, mean + 150 ms)`,
/// the mean of the last 30 that were shown. WebRTC's library wants at least 5 to tell.
const MEAN_OF: usize = 30;
const LEAST_FRAMES: usize = 5;
const FACTOR: f64 = 3.0;
const MARGIN: f64 = 150e6;
/// So long a frame may be under way at the end.
const UNDER_WAY: Nanos = 1_000_000_000;

/// A frame at the sender; its index is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    pub at: Nanos,
    /// Media, without headers.
    pub bytes: u32,
    /// The first one after a pause of the source.
    pub resumed: bool,
}

/// A frame whose last packet has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    pub number: u32,
    pub at: Nanos,
}

/// What a receiver records of media.
#[derive(Clone, Debug, Default)]
pub struct MediaRecord {
    /// In the order of completion, each frame once.
    pub completed: Vec<Completed>,
}

/// A frame from end to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    pub captured: Captured,
    /// Nanoseconds from capture to completion; `None`: lost.
    pub delay: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Freezes {
    pub count: u64,
    pub seconds: f64,
}

/// All frames by number, up to the `end` of the flow. Those captured in its last second may still be
/// under way, and are left out if they and all behind them are not complete.
pub fn join(captured: &[Captured], record: &MediaRecord, end: Nanos) -> Vec<Frame> {
    let mut frames: Vec<Frame> =
        captured.iter().map(|&captured| Frame { captured, delay: None }).collect();
    let mut known = captured.partition_point(|frame| frame.at.saturating_add(UNDER_WAY) <= end);
    for done in &record.completed {
        let number = done.number as usize;
        if let Some(frame) = frames.get_mut(number) {
            frame.delay = Some(done.at.saturating_sub(frame.captured.at));
            known = known.max(number + 1);
        }
    }
    frames.truncate(known);
    frames
}

/// Freezes among joined frames, from the time on until the `end`, which ends a last one where frames
/// were captured in vain. Pauses of the source are none.
pub fn freezes(frames: &[Frame], from: Nanos, end: Nanos) -> Freezes {
    let mut freezes = Freezes::default();
    let mut last: VecDeque<f64> = VecDeque::with_capacity(MEAN_OF);
    let mut shown_before: Option<Nanos> = None;
    let mut resumed = false;
    let in_vain = frames.last().is_some_and(|frame| frame.delay.is_none());
    let last_one = in_vain.then_some((false, Some(end)));
    let each = frames.iter().map(|frame| frame.captured.resumed).zip(shown_at(frames));
    for (after_pause, shown) in each.chain(last_one) {
        resumed |= after_pause;
        let Some(at) = shown else { continue };
        let Some(before) = shown_before.replace(at) else { continue };
        let duration = at.saturating_sub(before) as f64;
        if std::mem::take(&mut resumed) {
            continue;
        }
        let mean = last.iter().sum::<f64>() / last.len() as f64;
        let frozen = duration >= (FACTOR * mean).max(mean + MARGIN);
        if frozen && last.len() >= LEAST_FRAMES && at >= from {
            freezes.count += 1;
            freezes.seconds += duration / SECOND;
        }
        if last.len() == MEAN_OF {
            last.pop_front();
        }
        last.push_back(duration);
    }
    freezes
}

/// When each frame is shown, if it is: not lost, and not overtaken by a later one.
fn shown_at(frames: &[Frame]) -> Vec<Option<Nanos>> {
    let mut earliest = Nanos::MAX;
    let mut shown: Vec<_> = frames
        .iter()
        .rev()
        .map(|frame| {
            let at = frame.captured.at.saturating_add(frame.delay?);
            let in_time = at <= earliest;
            earliest = earliest.min(at);
            in_time.then_some(at)
        })
        .collect();
    shown.reverse();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const END: Nanos = 1_000_000 * MS;

    fn frame(at: Nanos, delay: Option<Nanos>) -> Frame {
        Frame { captured: Captured { at, bytes: 1000, resumed: false }, delay }
    }

    /// Frames every 40 ms, shown after 100 ms, those in `lost` never.
    fn stream(count: u64, lost: std::ops::Range<u64>) -> Vec<Frame> {
        let delay = |i| if lost.contains(&i) { None } else { Some(100 * MS) };
        (0..count).map(|i| frame(i * 40 * MS, delay(i))).collect()
    }

    /// At 25 frames a second a freeze lasts max(3 * 40, 40 + 150) = 190 ms at least: three frames lost
    /// in a row make a gap of 160 ms, four one of 200 ms.
    #[test]
    fn gap_is_a_freeze_from_mean_plus_150_ms() {
        assert_eq!(freezes(&stream(100, 50..53), 0, END), Freezes::default());
        assert_eq!(freezes(&stream(100, 50..54), 0, END), Freezes { count: 1, seconds: 0.2 });
        // Before the time that counts; and with too few frames to tell the mean.
        assert_eq!(freezes(&stream(100, 50..54), 3000 * MS, END), Freezes::default());
        assert_eq!(freezes(&stream(100, 5..10), 0, END), Freezes::default());
    }

    /// At 5 frames a second it lasts max(3 * 200, 200 + 150) = 600 ms.
    #[test]
    fn gap_is_a_freeze_from_three_times_the_mean() {
        let slow = |lost: std::ops::Range<u64>| {
            let delay = |i| if lost.contains(&i) { None } else { Some(10 * MS) };
            (0..50).map(|i| frame(i * 200 * MS, delay(i))).collect::<Vec<_>>()
        };
        assert_eq!(freezes(&slow(20..21), 0, END).count, 0);
        assert_eq!(freezes(&slow(20..22), 0, END), Freezes { count: 1, seconds: 0.6 });
    }

    #[test]
    fn pause_of_the_source_is_no_freeze() {
        let mut frames = stream(100, 0..0);
        for frame in &mut frames[50..] {
            frame.captured.at += 20_000 * MS;
        }
        assert_eq!(freezes(&frames, 0, END).count, 1);
        frames[50].captured.resumed = true;
        assert_eq!(freezes(&frames, 0, END).count, 0);
        // Also if the first frame after it is lost.
        frames[50].delay = None;
        assert_eq!(freezes(&frames, 0, END).count, 0);
    }

    /// A frame that comes after the next two is not shown: the gap goes to the next one.
    #[test]
    fn overtaken_frames_are_not_shown() {
        let mut frames = stream(60, 40..43);
        frames[43].delay = Some(190 * MS);
        assert_eq!(freezes(&frames, 0, END), Freezes { count: 1, seconds: 0.2 });
        frames[43].delay = Some(139 * MS);
        assert_eq!(freezes(&frames, 0, END).seconds, 0.199);
    }

    #[test]
    fn frames_are_joined_by_number() {
        let captured: Vec<_> =
            (0..5).map(|i| Captured { at: i * 40, bytes: 10, resumed: false }).collect();
        let done = |number, at| Completed { number, at };
        let completed = vec![done(0, 5), done(3, 130), done(2, 140), done(77, 1)];
        let record = MediaRecord { completed };
        let delays = |end| -> Vec<_> {
            join(&captured, &record, end).iter().map(|frame| frame.delay).collect()
        };
        assert_eq!(delays(200), [Some(5), None, Some(60), Some(10)]);
        // After a second the last one is lost.
        assert_eq!(delays(1000 * MS + 159).len(), 4);
        assert_eq!(delays(1000 * MS + 160), [Some(5), None, Some(60), Some(10), None]);
    }

    /// Frames every 40 ms; after 4 s nothing comes any more.
    #[test]
    fn freeze_lasts_until_the_end() {
        let frozen = freezes(&stream(250, 100..250), 0, 10_000 * MS);
        // The last frame was shown at 99 * 40 + 100 ms.
        assert_eq!(frozen, Freezes { count: 1, seconds: 5.94 });
        assert_eq!(freezes(&stream(100, 0..0), 0, 10_000 * MS).count, 0);
    }
}
