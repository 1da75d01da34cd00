//! HighSpeed TCP (RFC 3649): the larger the window, the more it grows a round trip and the less a
//! congestion event cuts, along a response function of w = 0.12/p^0.835.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | a(w), b(w) | table of RFC 3649 appendix B, b in 1/256 | formulas of section 5 |
//! | a cut's b(w) | of the window at the last growth: one half after slow start | of the window |
//! | growth | a(w)/w an ACK, so half of it with delayed ACKs | a(w)/w a segment acked |
//!
//! Linux is the default. The NIST study (SP 500-282) has a low window of 31, that of HighSpeed TCP
//! before its RFC; of the formulas, so `linux = false`.

use crate::Controller;
use crate::event::Ack;
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "highspeed";

/// RFC 3649 appendix B: up to this window, in segments, a(w) is the row counted from one, and b(w)
/// this many 256ths, rounded down.
const TABLE: [(u64, u64); 73] = [
    (38, 128),
    (118, 112),
    (221, 104),
    (347, 98),
    (495, 93),
    (663, 89),
    (851, 86),
    (1058, 83),
    (1284, 81),
    (1529, 78),
    (1793, 76),
    (2076, 74),
    (2378, 72),
    (2699, 71),
    (3039, 69),
    (3399, 68),
    (3778, 66),
    (4177, 65),
    (4596, 64),
    (5036, 62),
    (5497, 61),
    (5979, 60),
    (6483, 59),
    (7009, 58),
    (7558, 57),
    (8130, 56),
    (8726, 55),
    (9346, 54),
    (9991, 53),
    (10661, 52),
    (11358, 52),
    (12082, 51),
    (12834, 50),
    (13614, 49),
    (14424, 48),
    (15265, 48),
    (16137, 47),
    (17042, 46),
    (17981, 45),
    (18955, 45),
    (19965, 44),
    (21013, 43),
    (22101, 43),
    (23230, 42),
    (24402, 41),
    (25618, 41),
    (26881, 40),
    (28193, 39),
    (29557, 39),
    (30975, 38),
    (32450, 38),
    (33986, 37),
    (35586, 36),
    (37253, 36),
    (38992, 35),
    (40808, 35),
    (42707, 34),
    (44694, 33),
    (46776, 33),
    (48961, 32),
    (51258, 32),
    (53677, 31),
    (56230, 30),
    (58932, 30),
    (61799, 29),
    (64851, 29),
    (68113, 28),
    (71617, 28),
    (75401, 27),
    (79517, 27),
    (84035, 26),
    (89053, 26),
    (94717, 25),
];

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "low_window",
            "segments",
            38,
            (2.0, 1e6),
            "Reno up to this window (RFC 3649 Low_Window; NIST study: 31)",
        ),
        ParamInfo::new(
            "low_p",
            "fraction",
            1e-3,
            (1e-9, 0.5),
            "loss rate at low_window (RFC 3649 Low_P); formulas only",
        ),
        ParamInfo::new(
            "high_window",
            "segments",
            83_000,
            (3.0, 1e9),
            "window at loss rate high_p (RFC 3649 High_Window); formulas only",
        ),
        ParamInfo::new(
            "high_p",
            "fraction",
            1e-7,
            (1e-15, 0.5),
            "loss rate at high_window (RFC 3649 High_P); formulas only",
        ),
        ParamInfo::new(
            "high_decrease",
            "fraction",
            0.1,
            (0.001, 0.5),
            "share of the window cut at high_window (RFC 3649 High_Decrease); formulas only",
        ),
        ParamInfo::flag("linux", true, "Linux's table and ACK count; false: RFC 3649's formulas"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "steeper growth and smaller cuts the larger the window",
        source: "RFC 3649, Linux",
        signals: &["loss", "ecn"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let low_window = params.count("low_window");
    let rule = if params.flag("linux") {
        Rule::Table { row: 0 }
    } else {
        Rule::Formula(Response::new(params), Aimd { a: 1.0, b: 0.5 })
    };
    Box::new(LossBased::new(HighSpeed { low_window, rule, alternate: false }, params))
}

/// Segments added a round trip, and share of the window cut.
#[derive(Clone, Copy, Debug)]
struct Aimd {
    a: f64,
    b: f64,
}

/// RFC 3649 section 5: a line through two points of log w over log p.
#[derive(Clone, Copy, Debug)]
struct Response {
    log_low: f64,
    /// At least the low window.
    log_high: f64,
    log_low_p: f64,
    /// Of log p over log w.
    slope: f64,
    high_decrease: f64,
}

impl Response {
    fn new(params: &Params) -> Self {
        let log_low = libm::log(params.number("low_window"));
        // A high window that is not above the low one leaves a single point: a and b are constant.
        let log_high = libm::log(params.number("high_window")).max(log_low + f64::EPSILON);
        let log_low_p = libm::log(params.number("low_p"));
        let log_high_p = libm::log(params.number("high_p"));
        Self {
            log_low,
            log_high,
            log_low_p,
            slope: (log_high_p - log_low_p) / (log_high - log_low),
            high_decrease: params.number("high_decrease"),
        }
    }

    /// Beyond the high window as there: b(w) would turn negative far out.
    fn at(&self, window: f64) -> Aimd {
        let log_w = libm::log(window).clamp(self.log_low, self.log_high);
        let along = (log_w - self.log_low) / (self.log_high - self.log_low);
        let b = 0.5 + (self.high_decrease - 0.5) * along;
        // w^2 p(w) 2b/(2 - b)
        let log_p = self.log_low_p + self.slope * (log_w - self.log_low);
        Aimd { a: libm::exp(2.0 * log_w + log_p) * 2.0 * b / (2.0 - b), b }
    }
}

#[derive(Clone, Debug)]
enum Rule {
    /// Row of the window at the last growth.
    Table {
        row: usize,
    },
    Formula(Response, Aimd),
}

#[derive(Clone, Debug)]
struct HighSpeed {
    low_window: u64,
    rule: Rule,
    /// Growth is not Reno's.
    alternate: bool,
}

/// The row for `cwnd`, searched from one that is near.
fn follow(mut row: usize, cwnd: u64) -> usize {
    while row + 1 < TABLE.len() && cwnd > TABLE[row].0 {
        row += 1;
    }
    while row > 0 && cwnd <= TABLE[row - 1].0 {
        row -= 1;
    }
    row
}

impl Law for HighSpeed {
    const NAME: &'static str = NAME;

    /// Linux drops what slow start leaves of an ACK.
    fn spills_over(&self) -> bool {
        !matches!(self.rule, Rule::Table { .. })
    }

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        self.alternate = cwnd > self.low_window;
        match &mut self.rule {
            Rule::Table { row } => {
                *row = if self.alternate { follow(*row, cwnd) } else { 0 };
                let a = *row as u64 + 1;
                window.avoid(cwnd, a * window.mss());
            }
            Rule::Formula(response, aimd) if self.alternate => {
                let exact = window.exact();
                *aimd = response.at(exact);
                window.add(aimd.a / exact * acked as f64 / window.mss() as f64, 1);
            }
            Rule::Formula(_, aimd) => {
                *aimd = Aimd { a: 1.0, b: 0.5 };
                window.avoid(cwnd, acked);
            }
        }
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        match &mut self.rule {
            Rule::Table { row } => cut.base - ((cut.base * TABLE[*row].1) >> 8),
            Rule::Formula(response, aimd) if window.segments() > self.low_window => {
                *aimd = response.at(window.exact());
                (cut.base as f64 * (1.0 - aimd.b)) as u64
            }
            Rule::Formula(..) => cut.base / 2,
        }
    }

    fn phase(&self) -> &'static str {
        if self.alternate { "alternate" } else { "normal" }
    }

    /// Segments added a round trip; share of the window that a congestion event cuts.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        let (a, b) = match &self.rule {
            Rule::Table { row } => (*row as f64 + 1.0, TABLE[*row].1 as f64 / 256.0),
            Rule::Formula(_, aimd) => (aimd.a, aimd.b),
        };
        out("a", a);
        out("b", b);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn response() -> Response {
        Response::new(&Params::check(NAME, &info().params, &Map::new()).unwrap())
    }

    /// RFC 3649 appendix B has p(w) rounded to 0.078/w^1.2, which is within 3 % of the line through
    /// (38, 10^-3) and (83000, 10^-7); b(w) does not depend on it.
    #[test]
    fn a_and_b_are_those_of_the_rfc() {
        let response = response();
        for (w, a, b) in [
            (38.0, 0.95, 0.500),
            (118.0, 2.01, 0.441),
            (221.0, 3.01, 0.408),
            (347.0, 4.00, 0.385),
            (495.0, 5.01, 0.366),
            (663.0, 6.01, 0.351),
            (1058.0, 8.01, 0.327),
            (1529.0, 10.01, 0.308),
            (2076.0, 12.01, 0.292),
            (3039.0, 15.01, 0.272),
            (5036.0, 20.01, 0.246),
            (10_661.0, 30.01, 0.207),
            (25_618.0, 45.99, 0.161),
            (40_808.0, 55.98, 0.137),
            (64_851.0, 65.96, 0.113),
            (83_000.0, 72.5, 0.100),
        ] {
            let got = response.at(w);
            assert!((got.a / a - 1.0).abs() < 0.03, "a({w}) = {}, expected {a}", got.a);
            assert!((got.b - b).abs() < 6e-4, "b({w}) = {}, expected {b}", got.b);
            // The rounded p(w) with this b gives the RFC's a, which the table counts up by one.
            let rounded = w * w * 0.078 / w.powf(1.2) * 2.0 * got.b / (2.0 - got.b);
            assert!(w == 83_000.0 || (rounded - a).abs() < 0.011, "a({w}) = {rounded}");
        }
        assert!((response.slope + 1.19786).abs() < 1e-5);
        // Beyond the points a and b stay.
        assert_eq!(response.at(1e6).b, response.at(83_000.0).b);
        assert_eq!(response.at(10.0).b, 0.5);
    }

    /// Row n is where a(w), with p(w) = 0.078/w^1.2, reaches n; its b(w) in 256ths.
    #[test]
    fn the_table_is_that_of_the_formulas() {
        let b = |w: f64| 0.5 - 0.4 * (w / 38.0).ln() / (83_000.0_f64 / 38.0).ln();
        for (row, &(window, b_256)) in TABLE.iter().enumerate() {
            let w = window as f64;
            let a = w * w * 0.078 / w.powf(1.2) * 2.0 * b(w) / (2.0 - b(w));
            assert!((a - (row as f64 + 1.0)).abs() < 0.06, "row {row}: a({w}) = {a}");
            // No less than the high window's tenth.
            let expected = b(w).max(0.1) * 256.0;
            assert!((expected - b_256 as f64).abs() <= 1.0, "row {row}: {expected}");
            assert_eq!(follow(0, window), row);
            assert_eq!(follow(72, window), row);
            assert_eq!(follow(row, window + 1), (row + 1).min(72));
        }
        // Rows beyond the high window: 71 and 72 (Linux).
        assert_eq!((follow(0, 84_035), follow(0, 89_053)), (70, 71));
    }
}
