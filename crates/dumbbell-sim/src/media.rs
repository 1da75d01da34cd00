//! What a run gives back of media: frames from capture to completion.

use dumbbell_transport::rtp::playout::{Frame, freezes, join};

use crate::engine::Engine;
use crate::histogram::Histogram;
use crate::output::{Column, MediaSummary, Table};
use crate::record::{quantiles, seconds, table};

impl Engine<'_> {
    /// Frames of a flow's newest session; `None` if it does not carry media.
    fn frames(&self, entry: usize) -> Option<Vec<Frame>> {
        let entry = &self.entries[entry];
        entry.transport.as_ref()?;
        let session = &self.sessions[entry.slot? as usize];
        let end = entry.window(self.end).1;
        Some(join(session.sender.captured(), session.receiver.media()?, end))
    }

    /// Over the window of the flow's summary.
    pub(crate) fn media_summary(&self, entry: usize) -> Option<MediaSummary> {
        let frames = self.frames(entry)?;
        let (from, to) = self.entries[entry].window(self.end);
        let mut delays = Histogram::default();
        let (mut count, mut lost, mut bytes) = (0, 0, 0u64);
        for frame in frames.iter().filter(|frame| frame.captured.at >= from) {
            count += 1;
            match frame.delay {
                Some(delay) => {
                    delays.add(delay);
                    bytes += u64::from(frame.captured.bytes);
                }
                None => lost += 1,
            }
        }
        let found = freezes(&frames, from, to);
        let time = seconds(to - from);
        Some(MediaSummary {
            frames: count,
            lost_frames: lost,
            frame_delay_ms: quantiles(&delays),
            freezes: found.count,
            freeze_s: found.seconds,
            media_rate_bps: if time > 0.0 { bytes as f64 * 8.0 / time } else { 0.0 },
        })
    }

    /// All frames of all flows; `None` where no flow carries media.
    pub(crate) fn frames_table(&self) -> Option<Table> {
        let flows: Vec<(u32, Vec<Frame>)> = (0..self.entries.len())
            .filter_map(|entry| Some((entry as u32, self.frames(entry)?)))
            .collect();
        if flows.is_empty() {
            return None;
        }
        let rows = || flows.iter().flat_map(|(entry, list)| list.iter().map(move |f| (*entry, f)));
        let delay = |frame: &Frame| frame.delay.map_or(f64::NAN, |delay| delay as f64 / 1e6);
        let names = self.entries.iter().map(|entry| entry.id().to_owned()).collect();
        Some(table([
            ("t", Column::F64(rows().map(|(_, frame)| seconds(frame.captured.at)).collect())),
            ("flow", Column::Name { codes: rows().map(|(entry, _)| entry).collect(), names }),
            ("delay_ms", Column::F64(rows().map(|(_, frame)| delay(frame)).collect())),
            ("bytes", Column::U64(rows().map(|(_, f)| u64::from(f.captured.bytes)).collect())),
        ]))
    }
}
