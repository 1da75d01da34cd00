"""Six BBR flows behind a buffer below one BDP, and above it, against six CUBIC flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_PAPER = "Hock, Bless, Zitterbart, ICNP 2017"
_TALK = "the same, talk in the ICCRG"
_BASE_RTT_MS = 20


def _flows(cc: str, count: int, quick: bool, buffer: str) -> Result:
    return run_scenario(
        {
            "duration": "20s" if quick else "40s",
            "warmup": "10s",
            "interval": "200ms",
            "path": {
                "rate": "1Gbit",
                "rtt": f"{_BASE_RTT_MS}ms",
                "queue": {"kind": "fifo", "limit": buffer},
            },
            "flows": [
                {"id": f"{name}{i}", "cc": name, "start": f"{37 * i}ms"}
                for name in cc.split("+")
                for i in range(count)
            ],
        }
    )


def _total(result: Result, key: str) -> float:
    return float(sum(flow[key] for flow in result.summary["flows"]))


def _sent_over_capacity(result: Result) -> float:
    """Frames sent over what the link could carry, whole run."""
    link = result.summary["links"][0]
    bits = _total(result, "sent_packets") * 1514 * 8
    return float(bits / (link["capacity_bps"] * result.summary["totals"]["simulated_s"]))


def _median_rtt_ms(result: Result) -> float:
    medians = sorted(flow["rtt_ms"]["p50"] for flow in result.summary["flows"])
    return float(medians[len(medians) // 2])


def _run(quick: bool) -> Outcome:
    one = _flows("bbr", 1, quick, "0.8bdp")
    bbr = _flows("bbr", 6, quick, "0.8bdp")
    cubic = _flows("cubic", 6, quick, "0.8bdp")
    deep = _flows("bbr", 6, quick, "8bdp")
    mixed = _flows("bbr+cubic", 1, quick, "0.8bdp")
    use = "utilisation"
    shares = {flow["cc"]: flow["goodput_bps"] for flow in mixed.summary["flows"]}
    judged: list[tuple[Any, float]] = [
        (
            between("1 BBR flow, 0.8 BDP: share of the link used", 0.95, source=_PAPER),
            one.summary["links"][0][use],
        ),
        (
            # Peaks of 1.25 times the base, +3 %.
            between("1 BBR flow, 0.8 BDP: p95 of the RTT", high=1.25 * 1.03 * _BASE_RTT_MS,
                    unit="ms", source=_PAPER),
            one.summary["flows"][0]["rtt_ms"]["p95"],
        ),
        (
            between("6 BBR flows, 0.8 BDP: sent over capacity", 1.01, source=_TALK),
            _sent_over_capacity(bbr),
        ),
        (
            between("6 BBR flows, 0.8 BDP: share of segments lost", 0.02, 0.2, source=_PAPER),
            _total(bbr, "dropped_packets") / _total(bbr, "sent_packets"),
        ),
        (
            between("6 CUBIC flows, 0.8 BDP: sent over capacity", high=1.01, source=_TALK),
            _sent_over_capacity(cubic),
        ),
        (
            between("6 CUBIC flows, 0.8 BDP: share of the link used", 0.95, source=_PAPER),
            cubic.summary["links"][0][use],
        ),
        (
            between("retransmissions, 6 BBR over 6 CUBIC flows, 0.8 BDP", 30, source=_PAPER),
            _total(bbr, "retransmits") / max(1.0, _total(cubic, "retransmits")),
        ),
        (
            between("6 BBR flows, 8 BDP: median RTT", 35, 55, unit="ms", source=_PAPER),
            _median_rtt_ms(deep),
        ),
        (
            between("6 BBR flows, 8 BDP: segments lost after 10 s", high=0, source=_PAPER),
            deep.summary["links"][0]["drops_window"],
        ),
        (
            between("1 BBR against 1 CUBIC flow, 0.8 BDP: BBR's share", 0.75, source=_PAPER),
            shares["bbr"] / sum(shares.values()),
        ),
    ]  # fmt: skip
    return Outcome(
        [published.judge(ours) for published, ours in judged],
        lambda: _draw({"6 BBR flows": bbr, "6 CUBIC flows": cubic}),
    )


def _draw(results: dict[str, Result]) -> Figure:
    import numpy as np

    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(3, 1, (4.5, 4.6), sharex=True)
    for index, (label, result) in enumerate(results.items()):
        colour = COLOURS[(1, 0)[index]]
        link = columns(result, "link_series")
        flows = columns(result, "flow_series")
        t = link["t"]
        axes[0, 0].plot(t, link["queue_delay_ms"], color=colour, label=label)
        lost = np.diff(link["drops"].astype(float), prepend=0) / np.diff(t, prepend=0)
        axes[1, 0].plot(t, lost / 1000, color=colour, label=label)
        # CUBIC sets no pacing rate: a window each round trip.
        rtt_s = np.where(flows["rtt_ms"] > 0, flows["rtt_ms"], np.nan) / 1000
        windows = flows["cwnd"] * 1448 * 8 / rtt_s
        sends = np.where(np.isnan(flows["pacing_bps"]), windows, flows["pacing_bps"])
        rates = np.array([np.nansum(sends[flows["t"] == x]) for x in t])
        rates[rates == 0] = np.nan
        axes[2, 0].plot(t, rates * 1514 / 1448 / link["capacity_bps"], color=colour, label=label)
    limit = 0.8 * _BASE_RTT_MS
    axes[0, 0].axhline(limit, color=CAPACITY_COLOUR, linestyle="--", label="buffer, 0.8 BDP")
    axes[2, 0].axhline(1, color=CAPACITY_COLOUR, linestyle="-.", label="capacity")
    labels = ("queueing delay\n(ms)", "drops\n(1000 packets/s)", "sum of sending\nrates (capacity)")
    for ax, text in zip(axes[:, 0], labels, strict=True):
        ax.set_ylabel(text)
        ax.set_ylim(bottom=0)
    axes[2, 0].set_ylim(0, 2)
    axes[2, 0].set_xlabel("time (s)")
    axes[2, 0].set_xlim(0, t[-1])
    made.align_ylabels(axes[:, 0])
    entries: dict[str, Any] = {}
    for ax in axes[:, 0]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    made.legend(entries.values(), entries.keys(), loc="outside upper left", ncols=2, frameon=False)
    return made


PAPER = Paper(
    name="bbr-small-buffer",
    title="Six BBR flows behind buffers of 0.8 and 8 BDP",
    source="Hock, Bless, Zitterbart, Experimental Evaluation of BBR, ICNP 2017",
    setup=(
        "1 Gbit/s, base RTT 20 ms, drop-tail buffers of 0.8 and 8 BDP; flows start 37 ms apart and "
        "run for 40 s, of which the first 10 are left out of shares and delays. The paper also "
        "ran 10 Gbit/s. Its exact counts of retransmissions are not compared, only their ratio."
    ),
    run=_run,
)
