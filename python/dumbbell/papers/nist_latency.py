"""The final table of the NIST study: activation triggers, goodput and recovery latencies."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dumbbell.mesonet import latency
from dumbbell.mesonet._parameters import ALGORITHMS
from dumbbell.mesonet._single_flows import SingleLoss, Trigger, single_loss, trigger
from dumbbell.mesonet.published import FINAL_TABLE, SOURCE
from dumbbell.papers._paper import Outcome, Paper, Published, factor, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TABLE = f"{SOURCE}, final table"
_WINDOWS = {"bic": 14, "ctcp": 41, "hstcp": 31, "scalable": 16}
_FACTORS = {
    "scalable": (0.875, "Kelly 2003"),
    "bic": (0.8, "Linux, 819/1024"),
    "ctcp": (0.5, "draft-sridharan-tcpm-ctcp"),
    "fast": (0.5, SOURCE),
    "fast-at": (0.5, SOURCE),
}
_KELLY_ROUNDS = 13.42
"""ln(1/0.875)/ln 1.01."""


def _run(quick: bool) -> Outcome:
    findings = [asdict(found) for found in latency.findings(quick)]
    measured = latency.latencies(quick)
    goodput, recovery = measured.mean_goodput(), measured.mean_recovery()
    losses = {name: single_loss(ALGORITHMS[name]) for name in _FACTORS}
    rows = [
        *_trigger_rows({name: trigger(ALGORITHMS[name]) for name in FINAL_TABLE}),
        *(
            factor(f"goodput latency, {name}", published.goodput_s, 2, unit="s", source=_TABLE)
            .judge(goodput[name])
            for name, published in FINAL_TABLE.items()
        ),
        *(
            factor(f"recovery latency, {name}", published.recovery_s, 2, unit="s", source=_TABLE)
            .judge(recovery[name])
            for name, published in FINAL_TABLE.items()
        ),
        *_loss_rows(losses),
    ]  # fmt: skip
    tables = {
        "Algorithms": latency.table(quick),
        "Latencies by path": latency.paths_table(quick),
        "Findings": findings,
    }
    if not quick:
        tables["Recovery after other losses"] = latency.losses_table()
    return Outcome(rows, lambda: _draw(quick), tables)


def _draw(quick: bool) -> Figure:
    return latency.figures(quick)["latencies"]


def _trigger_rows(triggers: dict[str, Trigger]) -> list[dict[str, Any]]:
    rows = []
    for name, window in _WINDOWS.items():
        what = f"trigger, {name}: least window in which it is not TCP"
        # 14 packets may be the last window of TCP or the first without.
        expected = Published(what, "packets", _TABLE, window, window, window + 1, "or one more")
        first = triggers[name].alternate
        rows.append(expected.judge(float("nan") if first is None else first))
    seconds = triggers["htcp"].seconds
    one = within("trigger, htcp: time without loss", 1.0, 0.05, unit="s", source=_TABLE)
    rows.append(one.judge(float("nan") if seconds is None else seconds))
    return rows


def _loss_rows(losses: dict[str, SingleLoss]) -> list[dict[str, Any]]:
    rows = [
        within(f"factor of a cut, {name}", value, 0.01, source=source).judge(losses[name].factor)
        for name, (value, source) in _FACTORS.items()
    ]
    what = "scalable: from a loss to the window before it"
    kelly = within(what, _KELLY_ROUNDS, 0.05, unit="round trips", source="Kelly 2003")
    return [*rows, kelly.judge(losses["scalable"].rounds)]


PAPER = Paper(
    name="nist-latency",
    title="The NIST study's algorithms: triggers, time to the highest rate and back to it",
    source=SOURCE,
    setup=(
        "One flow with a fast interface (80 packets/ms, 960 Mbit/s) alone on the paths of "
        "experiment 1's three long-lived flows, with both levels of propagation: round trips of "
        "20 to 140 ms. Goodput latency: from the start, with an initial slow-start threshold of "
        "100 packets, to 90 % of the highest rate. Recovery latency: from the end of 60 s of 1 % "
        "random loss to 90 % of the highest rate. Means over the six paths; the study does not say "
        "how it measured, so that latencies count as agreeing within a factor of two. Quick: only "
        "the path of 70 ms."
    ),
    run=_run,
)
