//! Media sources: when frames are captured, and how large the encoder makes them.
//!
//! Rates here are of media alone, without headers. The models are those of RFC 8593 (section 5:
//! synthetic video, section 6: traces), the sources of audio and of shared content those of the
//! simulations that its authors used (syncodecs).

use std::sync::Arc;

use dumbbell_queue::Nanos;
use serde::Deserialize;

use crate::random::Random;

const SECOND: f64 = 1e9;
/// A transient at a low rate: frames behind the large one keep at least this share of their size.
const LEAST_SHARE: f64 = 0.2;
/// Frames are no larger than this, whatever the configuration.
const LARGEST_FRAME: f64 = 16e6;

/// A source as a scenario gives it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    pub source: Model,
    /// Times without frames, from and to; ascending.
    #[serde(default)]
    pub pauses_ns: Vec<(Nanos, Nanos)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    Video(Video),
    Content(Content),
    Audio(Audio),
    Trace(Trace),
}

impl Default for Model {
    fn default() -> Self {
        Self::Video(Video::default())
    }
}

/// Synthetic video (RFC 8593 section 5).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Video {
    pub fps: f64,
    /// R_min and R_max.
    pub min_bps: f64,
    pub max_bps: f64,
    /// tau_v: a new target is taken up this long after the last, at the earliest.
    pub update_ns: Nanos,
    /// Changes by more than this share of the rate begin a transient.
    pub transient_change: f64,
    /// K_d: frames of a transient, the first a key frame of `key_frame_bytes` (K_B).
    pub transient_frames: u32,
    pub key_frame_bytes: f64,
    /// Scales of the Laplace distributions of frames' sizes and intervals, relative to the mean.
    pub size_noise: f64,
    pub interval_noise: f64,
    /// Changes without a transient are cut to this share of the rate; `None`: not at all.
    pub largest_step: Option<f64>,
}

impl Default for Video {
    fn default() -> Self {
        Self {
            fps: 30.0,
            min_bps: 150e3,
            max_bps: 1.5e6,
            update_ns: 200_000_000,
            transient_change: 0.5,
            transient_frames: 8,
            key_frame_bytes: 13_500.0,
            size_noise: 0.15,
            interval_noise: 0.15,
            largest_step: None,
        }
    }
}

/// A shared screen: small frames, and at random, or as the first, a large one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Content {
    pub fps: f64,
    pub min_bps: f64,
    pub max_bps: f64,
    /// Small frames are at most so large.
    pub frame_bytes: f64,
    /// Probability of a large frame.
    pub change_probability: f64,
    /// A large frame is so many times as large as a small one: uniform between these.
    pub change_factor: (f64, f64),
}

impl Default for Content {
    fn default() -> Self {
        Self {
            fps: 5.0,
            min_bps: 0.0,
            max_bps: 1.5e6,
            frame_bytes: 1000.0,
            change_probability: 0.05,
            change_factor: (20.0, 200.0),
        }
    }
}

/// Frames of one size, whatever the target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audio {
    pub bps: f64,
    pub interval_ns: Nanos,
}

impl Default for Audio {
    fn default() -> Self {
        Self { bps: 20e3, interval_ns: 20_000_000 }
    }
}

/// Frames of recorded encodings of one sequence at some rates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// By ascending rate; of equal length.
    pub levels: Vec<Level>,
    /// As [`Video::update_ns`].
    #[serde(default = "default_update")]
    pub update_ns: Nanos,
}

fn default_update() -> Nanos {
    Video::default().update_ns
}

/// One encoding, repeated for ever.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    pub bps: f64,
    pub bytes: Vec<u32>,
    /// Until the next frame.
    pub interval_ns: Vec<Nanos>,
}

impl SourceConfig {
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(&self) -> Result<(), String> {
        let mut last = 0;
        for &(from, to) in &self.pauses_ns {
            if from < last || to <= from {
                return Err("pauses must be ascending and not overlap".into());
            }
            last = to;
        }
        match &self.source {
            Model::Video(v) => {
                rates(v.fps, v.min_bps, v.max_bps)?;
                let numbers = [v.transient_change, v.key_frame_bytes, v.size_noise];
                let step = v.largest_step.unwrap_or(1.0);
                if numbers.iter().chain([&v.interval_noise]).any(|&x| !(0.0..=1e9).contains(&x)) {
                    return Err("video: a number is negative or too large".into());
                }
                if step.is_nan() || step <= 0.0 {
                    return Err("video: largest_step must be positive".into());
                }
                Ok(())
            }
            Model::Content(c) => {
                rates(c.fps, c.min_bps, c.max_bps)?;
                let (low, high) = c.change_factor;
                let ascending = low >= 1.0 && low <= high && high <= 1e9;
                if !ascending || !(0.0..=1.0).contains(&c.change_probability) {
                    return Err("content: change_factor or change_probability out of range".into());
                }
                if !(1.0..=1e9).contains(&c.frame_bytes) {
                    return Err("content: frame_bytes out of range".into());
                }
                Ok(())
            }
            Model::Audio(a) => {
                if !(1.0..=1e9).contains(&a.bps) || a.interval_ns == 0 {
                    return Err("audio: rate or interval out of range".into());
                }
                Ok(())
            }
            Model::Trace(t) => {
                let frames = t.levels.first().map_or(0, |level| level.bytes.len());
                let unequal = |level: &Level| {
                    level.bytes.len() != frames || level.interval_ns.len() != frames
                };
                if frames == 0 || t.levels.iter().any(unequal) {
                    return Err("trace: each level needs the same number of frames".into());
                }
                let ascending = t.levels.windows(2).all(|pair| pair[0].bps < pair[1].bps);
                if !ascending || t.levels.iter().any(|level| !(0.0..1e12).contains(&level.bps)) {
                    return Err("trace: levels must have ascending rates".into());
                }
                if t.levels.iter().any(|level| level.interval_ns.contains(&0)) {
                    return Err("trace: an interval is 0".into());
                }
                Ok(())
            }
        }
    }
}

fn rates(fps: f64, min: f64, max: f64) -> Result<(), String> {
    if !(0.01..=1e5).contains(&fps) {
        return Err("fps must be from 0.01 to 100000".into());
    }
    if !(0.0 <= min && min <= max && 0.0 < max && max <= 1e12) {
        return Err("rates must be ascending and positive".into());
    }
    Ok(())
}

/// What the encoder has produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) bytes: u32,
    /// The first one after a pause.
    pub(super) resumed: bool,
}

/// A running source.
pub(super) struct Source {
    config: Arc<SourceConfig>,
    random: Random,
    next_at: Nanos,
    /// Pauses that have begun.
    pauses_begun: usize,
    resumed: bool,
    /// The rate that frames are made for, and when it was taken up.
    rate: f64,
    updated: Option<Nanos>,
    /// Frames of a transient that are still to come.
    transient: u32,
    /// The next frame of a content source is a large one.
    change: bool,
    /// Of a trace.
    position: usize,
}

impl Source {
    /// It begins at `now`.
    pub(super) fn new(config: Arc<SourceConfig>, seed: u64, now: Nanos) -> Self {
        let mut source = Self {
            config,
            random: Random::new(seed),
            next_at: now,
            pauses_begun: 0,
            resumed: false,
            rate: 0.0,
            updated: None,
            transient: 0,
            change: true,
            position: 0,
        };
        source.skip_pauses();
        source.resumed = false;
        source
    }

    /// When the next frame is captured.
    pub(super) fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// The greatest rate that it has a use for, bits per second.
    pub(super) fn most(&self) -> f64 {
        match &self.config.source {
            Model::Video(v) => v.max_bps,
            Model::Content(c) => c.max_bps,
            Model::Audio(_) | Model::Trace(_) => f64::INFINITY,
        }
    }

    /// Mean time between two frames.
    pub(super) fn mean_interval(&self) -> Nanos {
        let of = |fps: f64| (SECOND / fps) as Nanos;
        match &self.config.source {
            Model::Video(v) => of(v.fps),
            Model::Content(c) => of(c.fps),
            Model::Audio(a) => a.interval_ns,
            Model::Trace(t) => t.levels.first().map_or(1, |level| {
                level.interval_ns.iter().sum::<Nanos>() / level.interval_ns.len().max(1) as Nanos
            }),
        }
        .max(1)
    }

    /// The next frame is to be one that needs no other.
    pub(super) fn force_key_frame(&mut self) {
        if let Model::Video(v) = &self.config.source {
            self.transient = v.transient_frames;
        }
        self.change = true;
    }

    /// The frame that is due, for a target in bits per second.
    pub(super) fn capture(&mut self, target: f64) -> Frame {
        let now = self.next_at;
        let config = Arc::clone(&self.config);
        let (bytes, interval) = match &config.source {
            Model::Video(video) => self.video(video, now, target),
            Model::Content(content) => self.content(content, target),
            Model::Audio(audio) => {
                (audio.bps * audio.interval_ns as f64 / (8.0 * SECOND), audio.interval_ns as f64)
            }
            Model::Trace(trace) => self.trace(trace, now, target),
        };
        let resumed = self.resumed;
        self.resumed = false;
        self.next_at = now.saturating_add((interval as Nanos).max(1));
        self.skip_pauses();
        Frame { bytes: bytes.clamp(1.0, LARGEST_FRAME).round() as u32, resumed }
    }

    /// Frames that should have been captured before this time are not.
    pub(super) fn skip_to(&mut self, now: Nanos) {
        self.next_at = self.next_at.max(now);
        self.skip_pauses();
    }

    fn skip_pauses(&mut self) {
        while let Some(&(from, to)) = self.config.pauses_ns.get(self.pauses_begun) {
            if self.next_at < from {
                return;
            }
            self.pauses_begun += 1;
            if self.next_at < to {
                self.next_at = to;
                self.resumed = true;
                self.force_key_frame();
            }
        }
    }

    /// Whether a new target may be taken up.
    fn may_update(&self, now: Nanos, period: Nanos) -> bool {
        self.updated.is_none_or(|at| now >= at.saturating_add(period))
    }

    fn video(&mut self, video: &Video, now: Nanos, target: f64) -> (f64, f64) {
        if self.may_update(now, video.update_ns) {
            let target = target.max(video.min_bps).min(video.max_bps);
            let change = target / self.rate - 1.0;
            if self.updated.is_none() || change.abs() > video.transient_change {
                self.rate = target;
                self.transient = video.transient_frames;
            } else {
                let step = video.largest_step.unwrap_or(f64::INFINITY);
                self.rate = target.min(self.rate * (1.0 + step)).max(self.rate * (1.0 - step));
            }
            self.updated = Some(now);
        }
        let mean = self.rate / (8.0 * video.fps);
        let interval = SECOND / video.fps;
        if self.transient > 0 {
            let first = self.transient == video.transient_frames;
            self.transient -= 1;
            let frames = f64::from(video.transient_frames);
            let key = video.key_frame_bytes.max(mean);
            // Together they have the mean size, if the first leaves enough.
            let rest = ((frames - key / mean) / (frames - 1.0)).max(LEAST_SHARE);
            return (if first { key } else { rest * mean }, interval);
        }
        let size = mean * (1.0 + self.random.laplace(video.size_noise));
        let time = interval * (1.0 + self.random.laplace(video.interval_noise));
        (size, time.max(0.0))
    }

    fn content(&mut self, content: &Content, target: f64) -> (f64, f64) {
        let target = target.max(content.min_bps).min(content.max_bps);
        let base = (target / (8.0 * content.fps)).min(content.frame_bytes);
        let large = self.random.uniform() < content.change_probability || self.change;
        self.change = false;
        let (low, high) = content.change_factor;
        let factor = if large { low + (high - low) * self.random.uniform() } else { 1.0 };
        (base * factor, SECOND / content.fps)
    }

    /// Between two encodings their sizes are interpolated, outside of all they are scaled.
    fn trace(&mut self, trace: &Trace, now: Nanos, target: f64) -> (f64, f64) {
        if self.may_update(now, trace.update_ns) {
            self.rate = target;
            self.updated = Some(now);
        }
        let split = trace.levels.partition_point(|level| level.bps <= self.rate);
        let (below, above) = trace.levels.split_at(split);
        let (low, high) = (below.last(), above.first());
        let Some(nearest) = low.or(high) else { return (1.0, SECOND) };
        let at = self.position % nearest.bytes.len().max(1);
        self.position += 1;
        let bytes_of = |level: &Level| level.bytes.get(at).map_or(1.0, |&bytes| f64::from(bytes));
        let bytes = match (low, high) {
            (Some(low), Some(high)) => {
                let weight = (self.rate - low.bps) / (high.bps - low.bps);
                weight * bytes_of(high) + (1.0 - weight) * bytes_of(low)
            }
            _ if nearest.bps > 0.0 => bytes_of(nearest) * self.rate / nearest.bps,
            _ => bytes_of(nearest),
        };
        let interval = nearest.interval_ns.get(at).copied().unwrap_or(SECOND as Nanos);
        (bytes, interval as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(json: &str) -> Source {
        let config: SourceConfig = serde_json::from_str(json).unwrap();
        config.check().unwrap();
        Source::new(Arc::new(config), 1, 0)
    }

    /// Capture times and sizes up to a time.
    fn frames(source: &mut Source, target: f64, until: Nanos) -> Vec<(Nanos, u32)> {
        let mut frames = Vec::new();
        while source.next_at() < until {
            frames.push((source.next_at(), source.capture(target).bytes));
        }
        frames
    }

    const SECOND: Nanos = 1_000_000_000;

    /// RFC 8593's example: 1 Mbit/s at 30 frames a second has B0 = 4167 bytes. A transient of 8 frames
    /// begins with 13.5 kB; each of the 7 others has (8 * 4167 - 13500) / 7 = 2833 bytes, so that
    /// together they are as long as 8 frames of B0.
    #[test]
    fn transient_keeps_the_mean_rate() {
        let mut source = source(r#"{"source": {"model": "video"}}"#);
        let got = frames(&mut source, 1e6, 267_000_000);
        assert_eq!(got.len(), 9);
        assert_eq!(got[0].1, 13_500);
        assert!(got[1..8].iter().all(|&(_, bytes)| bytes == 2833));
        let sum: u32 = got[..8].iter().map(|f| f.1).sum();
        assert!((f64::from(sum) - 8.0 * 1e6 / 240.0).abs() < 4.0, "{sum}");
        assert_eq!(got[7].0 / 1_000_000, 233);
    }

    /// At 150 kbit/s B0 is 625 bytes: a key frame of 13.5 kB leaves less than nothing for 7 more, so
    /// they have a fifth of B0.
    #[test]
    fn transient_at_a_low_rate_has_small_frames() {
        let mut source = source(r#"{"source": {"model": "video"}}"#);
        let got = frames(&mut source, 1.0, 260_000_000);
        assert_eq!(
            got.iter().map(|f| f.1).collect::<Vec<_>>()[..8],
            [13_500, 125, 125, 125, 125, 125, 125, 125]
        );
    }

    /// In the steady state sizes and intervals have the means B0 and t0 and the deviations of Laplace
    /// distributions with scale 0.15: sqrt(2) * 0.15 = 0.212 of the mean.
    #[test]
    fn steady_frames_have_mean_and_deviation_of_rfc_8593() {
        let mut source = source(r#"{"source": {"model": "video"}}"#);
        let got = frames(&mut source, 1e6, 2000 * SECOND);
        let steady = &got[8..];
        let n = steady.len() as f64 - 1.0;
        let sizes = steady.iter().map(|f| f64::from(f.1) * 240.0 / 1e6);
        let gaps = steady.windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 30.0 / 1e9);
        for values in [sizes.collect::<Vec<_>>(), gaps.collect()] {
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            assert!((mean - 1.0).abs() < 0.005, "{mean}");
            assert!((variance.sqrt() - 0.2121).abs() < 0.005, "{variance}");
        }
    }

    /// tau_v = 200 ms: of targets that change at each frame, one in 200 ms is taken up. Steps of less
    /// than half the rate begin no transient, larger ones do.
    #[test]
    fn targets_are_taken_up_every_200_ms() {
        let noiseless = r#"{"source": {"model": "video", "size_noise": 0, "interval_noise": 0}}"#;
        let mut video = source(noiseless);
        frames(&mut video, 600e3, SECOND);
        let before = video.capture(600e3).bytes;
        assert_eq!(before, 2500);
        let got = frames(&mut video, 800e3, 1_300_000_000);
        let first = got.iter().position(|f| f.1 != 2500).unwrap();
        assert!(got[first].0 - got[0].0 <= 200_000_000);
        // 800 kbit/s / 240.
        assert!(got[first..].iter().all(|f| f.1 == 3333), "{got:?}");
        let got = frames(&mut video, 1.3e6, 2 * SECOND);
        assert_eq!(got.iter().filter(|f| f.1 == 13_500).count(), 1);
        assert_eq!(got.last().unwrap().1, 5417);
        // Above R_max.
        let got = frames(&mut video, 9e6, 3 * SECOND);
        assert_eq!(got.last().unwrap().1, 6250);

        let mut limited = source(
            r#"{"source": {"model": "video", "size_noise": 0, "interval_noise": 0,
                "largest_step": 0.1}}"#,
        );
        frames(&mut limited, 600e3, SECOND);
        let got = frames(&mut limited, 800e3, 2 * SECOND);
        let mut sizes: Vec<u32> = got.iter().map(|f| f.1).collect();
        sizes.dedup();
        // 10 % each 200 ms: 2500, 2750, 3025, 3327.5, 3333.
        assert_eq!(sizes, [2500, 2750, 3025, 3328, 3333]);
    }

    /// 20 kbit/s in frames every 20 ms: 50 bytes.
    #[test]
    fn audio_is_constant() {
        let mut source = source(r#"{"source": {"model": "audio"}}"#);
        let got = frames(&mut source, 1.0, SECOND);
        assert_eq!(got.len(), 50);
        assert!(got.iter().enumerate().all(|(i, f)| *f == (i as u64 * 20_000_000, 50)));
    }

    /// Small frames of min(R / 40, 1000) bytes; a share of 5 % is 20 to 200 times as large, on average
    /// 110 times.
    #[test]
    fn content_has_large_frames_at_random() {
        let mut source = source(r#"{"source": {"model": "content"}}"#);
        let got = frames(&mut source, 1e6, 4000 * SECOND);
        assert_eq!(got.len(), 20_000);
        assert!(got[0].1 >= 20_000);
        let large: Vec<f64> =
            got.iter().filter(|f| f.1 != 1000).map(|f| f64::from(f.1) / 1000.0).collect();
        assert!((large.len() as f64 / 1000.0 - 1.0).abs() < 0.15, "{}", large.len());
        assert!(large.iter().all(|factor| (20.0..=200.0).contains(factor)));
        assert!((large.iter().sum::<f64>() / large.len() as f64 - 110.0).abs() < 6.0);
        let mut slow = source_at(20e3);
        assert_eq!(slow.1.pop().map(|f| f.1 <= 100_000), Some(true));
        // 20 kbit/s / 40 = 500 bytes.
        assert!(slow.1[1..].iter().filter(|f| f.1 == 500).count() > 10);
    }

    fn source_at(target: f64) -> (Source, Vec<(Nanos, u32)>) {
        let mut source = source(r#"{"source": {"model": "content"}}"#);
        let got = frames(&mut source, target, 4 * SECOND);
        (source, got)
    }

    /// Sizes of two encodings, of 100 and 200 kbit/s, are weighed by where the target lies between
    /// them, and scaled by target over rate below the lower and above the upper; frames go on where
    /// they were, and begin anew at the end.
    #[test]
    fn trace_interpolates_between_encodings() {
        let json = r#"{"source": {"model": "trace", "update_ns": 0, "levels": [
            {"bps": 100e3, "bytes": [100, 110, 120], "interval_ns": [40000000, 40000000, 40000000]},
            {"bps": 200e3, "bytes": [200, 230, 260], "interval_ns": [40000000, 40000000, 40000000]}]}}"#;
        let mut source = source(json);
        let got: Vec<u32> = [50e3, 100e3, 150e3, 200e3, 400e3, 0.0]
            .map(|target| source.capture(target).bytes)
            .into();
        // 100/2, 110, (120 + 260)/2, 200, 230 * 2, at least a byte.
        assert_eq!(got, [50, 110, 190, 200, 460, 1]);
        assert_eq!(source.next_at(), 240_000_000);
    }

    /// No frames in a pause; the first one after it is a key frame.
    #[test]
    fn pauses_have_no_frames() {
        let json = r#"{"source": {"model": "video"}, "pauses_ns": [[1000000000, 3000000000]]}"#;
        let mut video = source(json);
        let mut last = 0;
        while video.next_at() < 4 * SECOND {
            let at = video.next_at();
            let frame = video.capture(1e6);
            assert!(!(SECOND..3 * SECOND).contains(&at));
            if at >= 3 * SECOND && last < SECOND {
                assert_eq!(frame, Frame { bytes: 13_500, resumed: true });
                assert_eq!(at, 3 * SECOND);
            } else {
                assert!(!frame.resumed);
            }
            last = at;
        }
        assert!(last > 3 * SECOND);
    }

    #[test]
    fn absurd_configurations_are_refused() {
        for json in [
            r#"{"source": {"model": "video", "fps": 0}}"#,
            r#"{"source": {"model": "video", "min_bps": 2e6}}"#,
            r#"{"source": {"model": "video", "size_noise": -1}}"#,
            r#"{"source": {"model": "audio", "interval_ns": 0}}"#,
            r#"{"source": {"model": "content", "change_factor": [5, 1]}}"#,
            r#"{"source": {"model": "trace", "levels": []}}"#,
            r#"{"source": {"model": "audio"}, "pauses_ns": [[5, 5]]}"#,
        ] {
            let config: SourceConfig = serde_json::from_str(json).unwrap();
            assert!(config.check().is_err(), "{json}");
        }
    }
}
