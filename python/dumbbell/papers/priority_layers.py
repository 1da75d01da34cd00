"""PLT: a flow in two priority layers, against TCP, FAST and XCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, Published, between, series, thread_pool, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_PAPER = "Venkataraman et al., CoNEXT 2008 and its slides"
RATE_MBPS = 250
RTT_S = 0.08
WINDOW = 2500
_PACKET = 1000
_PLT = {"packet": "1000B"}
"""The sender's interface is as fast as the bottleneck."""
_TCP_PAYLOAD = 948
_PAYLOAD_MBPS = RATE_MBPS * _TCP_PAYLOAD / _PACKET
FAST = {"alpha": 50}
_LOSSES = (1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1)
_QUICK_LOSSES = (1e-3, 0.01)
_MU = 0.05
_BURSTS_MBPS = (0, 25, 50, 100, 150)
_PAIRS = 5
_SMALL_BUFFER = 50


def fifo(packets: int = WINDOW) -> dict[str, Any]:
    return {"kind": "fifo", "limit": f"{packets}p"}


def layers(packets: int = WINDOW) -> dict[str, Any]:
    """Strict priority; the first class takes everything but LE."""
    return {
        "kind": "prio",
        "classes": [{"dscp": ["cs0"], "queue": fifo(packets)}, {"queue": fifo(packets)}],
    }


@dataclass(frozen=True)
class _Contender:
    label: str
    flow: dict[str, Any]
    queue: dict[str, Any]


def tcp(cc: str = "reno", **keys: Any) -> dict[str, Any]:
    """A TCP flow with packets of 1000 bytes and PLT's receive window, which holds nobody up."""
    return {"cc": cc, "mss": f"{_TCP_PAYLOAD}B", "rwnd": "20MB", **keys}


def plt(cc: str = "reno", options: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {
        "transport": "plt", "cc": cc, "options": {**_PLT, **(options or {})}, **keys
    }  # fmt: skip


_CONTENDERS = {
    "reno": _Contender("Reno", tcp(), fifo()),
    "fast": _Contender("FAST", tcp("fast", params=FAST), fifo()),
    "xcp": _Contender("XCP", tcp("xcp"), {"kind": "xcp", "limit": f"{WINDOW}p"}),
    "plt": _Contender("PLT", plt(), layers()),
    "hcm": _Contender(
        "PLT, HCM alone retransmits", plt(options={"lcm_rexmt_on_lcm": False}), layers()
    ),
    "plt-fast": _Contender("PLT-FAST", plt("fast", params=FAST), layers()),
}


def _go(
    flows: Sequence[dict[str, Any]],
    queue: dict[str, Any],
    seconds: float,
    warmup: float = 0,
    *,
    loss: float = 0,
    seed: int = 1,
) -> Result:
    return run_scenario(
        {
            "duration": f"{seconds}s",
            "warmup": f"{warmup}s",
            "seed": seed,
            "interval": "80ms",
            "path": {
                "rate": f"{RATE_MBPS}Mbit",
                "rtt": "80ms",
                "overhead": "0B",
                "loss": loss,
                "queue": queue,
            },
            "flows": list(flows),
        }
    )


def _goodput(result: Result, prefix: str = "") -> float:
    """Mbit/s of all flows of which the id begins so."""
    flows = result.summary["flows"]
    bits = sum(flow["goodput_bps"] for flow in flows if flow["id"].startswith(prefix))
    return float(bits) / 1e6


def mathis(loss: float) -> float:
    """Mbit/s of TCP at random loss: sqrt(3/2) segments a round trip over the root of p."""
    return _TCP_PAYLOAD * 8 / RTT_S * sqrt(1.5 / loss) / 1e6


def _variable(result: Result, flow: str, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    table = columns(result, "controller_series")
    rows = (table["flow"] == flow) & (table["name"] == name)
    return table["t"][rows], table["value"][rows]


def _random_loss(quick: bool) -> dict[str, list[tuple[float, float]]]:
    """Loss and goodput (Mbit/s, mean of four runs) of each contender."""
    losses = _QUICK_LOSSES if quick else _LOSSES
    points = [(name, loss) for name in _CONTENDERS for loss in losses]

    def measure(point: tuple[str, float]) -> float:
        name, loss = point
        contender = _CONTENDERS[name]
        # Reno's sawteeth are long where it loses little: thirty of them.
        seconds = 8 if quick else max(30, 400 if name == "reno" and loss >= 1e-4 else 0)
        warmup = 5 if seconds <= 30 else 50
        return fmean(
            _goodput(_go([contender.flow], contender.queue, seconds, warmup, loss=loss, seed=seed))
            for seed in range(1, 2 if quick else 5)
        )

    with thread_pool() as pool:
        goodputs = list(pool.map(measure, points))
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in _CONTENDERS}
    for (name, loss), goodput in zip(points, goodputs, strict=True):
        curves[name].append((loss, goodput))
    return curves


def _judge_random_loss(curves: dict[str, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    slide = f"{_PAPER}, slide 22"
    rows = []
    for name in ("plt", "plt-fast"):
        worst = min(
            goodput / (_PAYLOAD_MBPS * (1 - loss)) for loss, goodput in curves[name] if loss < _MU
        )
        what = f"A: {_CONTENDERS[name].label}, loss below mu: least share of capacity x (1 - loss)"
        rows.append(between(what, 0.95, source=slide).judge(worst))
    for loss, goodput in curves["reno"]:
        if 1e-4 <= loss <= 0.01:
            published = within(
                f"A: Reno at loss {loss:g}", mathis(loss), 0.2, unit="Mbit/s",
                source="Mathis et al. 1997",
            )  # fmt: skip
            rows.append(published.judge(goodput))
    for name in ("fast", "xcp"):
        share = dict(curves[name])[0.01] / _PAYLOAD_MBPS
        what = f"A: {_CONTENDERS[name].label} at 1 % of loss, share of capacity"
        rows.append(between(what, high=0.5, source=slide).judge(share))
    return rows


def _short_flows(quick: bool) -> dict[str, NDArray[Any]]:
    """Completion times in round trips, sorted."""
    traffic = {
        "kind": "poisson",
        "load": "37.5Mbit",
        "size": {"kind": "pareto", "mean": "100kB", "shape": 1.2, "max": "5MB"},
    }
    times = {}
    for name in ("reno", "plt"):
        contender = _CONTENDERS[name]
        keys = {"handshake": False} if name == "reno" else {}
        flow = contender.flow | {"traffic": traffic} | keys
        result = _go([flow], contender.queue, 5 if quick else 20)
        times[name] = np.sort(columns(result, "completions")["duration_s"]) / RTT_S
    return times


def _step_s(quick: bool) -> int:
    return 3 if quick else 10


def _dynamics(queue: dict[str, Any], flow: dict[str, Any], quick: bool) -> Result:
    """Three flows; the first two leave one after the other; a fourth comes."""
    step = _step_s(quick)
    flows = [flow | {"id": "one", "stop": f"{step}s"}]
    flows.append(flow | {"id": "two", "stop": f"{2 * step}s"})
    flows.append(flow | {"id": "three"})
    flows.append(flow | {"id": "four", "start": f"{3 * step}s"})
    return _go(flows, queue, 4 * step)


def _ramp_rtts(result: Result, at: float) -> float:
    """Round trips after flow two has left until flow three has 90 % of the capacity in the mean of
    the next ten. What lies behind a hole is delivered at once, so single samples mean little."""
    t, goodput = series(result, "flow_series", "three", "t", "goodput_bps")
    after = t > at
    means = np.convolve(goodput[after], np.full(10, 0.1), mode="valid")
    there = np.flatnonzero(means >= 0.9 * _PAYLOAD_MBPS * 1e6)
    return float((t[after][there[0]] - at) / RTT_S) if there.size else float("inf")


def _loss_spike(result: Result, at: float) -> float:
    """Rise of the loss ratio of flow three's low class from the second before to that after."""

    def ratio(start: float) -> float:
        lost, sent = (
            float(np.ptp(value[(t > start) & (t <= start + 1)]))
            for t, value in (_variable(result, "three", name) for name in ("lcm_lost", "lcm_sent"))
        )
        return lost / max(sent, 1)

    return ratio(at) - ratio(at - 1)


def _bursts(quick: bool) -> dict[str, list[tuple[float, float]]]:
    """Rate of UDP while on (a second in two), and use of the link by everybody's payload."""
    seconds, warmup = (8, 4) if quick else (28, 8)
    points = [
        (name, mbps)
        for name in ("reno", "fast", "plt")
        for mbps in ((50,) if quick else _BURSTS_MBPS)
    ]

    def measure(point: tuple[str, int]) -> float:
        contender = _CONTENDERS[point[0]]
        udp = [
            {
                "id": f"udp{start}", "transport": "udp", "start": f"{start}s",
                "stop": f"{start + 1}s",
                "traffic": {"kind": "rate", "rate": f"{point[1]}Mbit", "chunk": "972B"},
            }
            for start in range(warmup, seconds, 2)
            if point[1] > 0
        ]  # fmt: skip
        result = _go([contender.flow | {"id": "flow"}, *udp], contender.queue, seconds, warmup)
        # UDP's goodputs are those of their own second.
        per_second = _goodput(result, "udp") / (seconds - warmup)
        return (_goodput(result, "flow") + per_second) / _PAYLOAD_MBPS

    with thread_pool() as pool:
        used = list(pool.map(measure, points))
    curves: dict[str, list[tuple[float, float]]] = {}
    for (name, mbps), share in zip(points, used, strict=True):
        curves.setdefault(name, []).append((mbps, share))
    return curves


def _friendliness(quick: bool) -> float:
    """Goodput of TCP beside as many PLT flows, over that beside as many TCP flows."""
    seconds, warmup = (10, 4) if quick else (200, 40)
    queue = layers(_SMALL_BUFFER)
    seeds = range(1, 2 if quick else 5)

    def goodputs(other: dict[str, Any], seed: int) -> tuple[float, float]:
        """Mbit/s of TCP and of the others; all start at random within the first second."""
        starts = np.random.default_rng(seed).uniform(0, 1, 2 * _PAIRS)
        flows = [
            made | {"id": f"{name}-{index}", "start": f"{start:.6f}s"}
            for index, start in enumerate(starts)
            for name, made in [("tcp", tcp()) if index % 2 else ("other", other)]
        ]
        result = _go(flows, queue, seconds, warmup, seed=seed)
        return _goodput(result, "tcp"), _goodput(result, "other")

    with thread_pool() as pool:
        beside_plt = list(pool.map(lambda seed: goodputs(plt(), seed)[0], seeds))
        # Both halves are alike here.
        beside_tcp = list(pool.map(lambda seed: fmean(goodputs(tcp(), seed)), seeds))
    return fmean(beside_plt) / fmean(beside_tcp)


def _saturation(quick: bool) -> tuple[Result, float, float]:
    """Reno in the high class without loss, which fills the pipe and a part of the buffer; mean
    windows of the low class then, and where a loss of 0.1 % keeps Reno small."""
    seconds = 15 if quick else 40
    alone, lossy = (_go([plt(id="plt")], layers(), seconds, loss=loss) for loss in (0.0, 1e-3))

    def window(result: Result) -> float:
        t, value = _variable(result, "plt", "lcm_cwnd")
        return float(value[t > seconds / 2].mean())

    return alone, window(alone), window(lossy)


def _run(quick: bool) -> Outcome:
    curves = _random_loss(quick)
    rows = _judge_random_loss(curves)
    times = _short_flows(quick)
    step = _step_s(quick)
    dynamics = {
        name: _dynamics(_CONTENDERS[name].queue, _CONTENDERS[name].flow, quick)
        for name in ("reno", "plt")
    }
    bursts = _bursts(quick)
    saturated, full, part = _saturation(quick)
    at_50 = {name: dict(curve)[50] for name, curve in bursts.items()}
    least = min(
        plt_use - fast_use
        for (mbps, plt_use), (_, fast_use) in zip(bursts["plt"], bursts["fast"], strict=True)
        if mbps > 0
    )
    judged: list[tuple[Published, float]] = [
        (
            between("B: share of PLT's flows done in 2 round trips", 0.5, source=f"{_PAPER}, 23"),
            float((times["plt"] <= 2).mean()),
        ),
        (
            between("C: round trips until the last flow has 90 %", high=10, source=f"{_PAPER}, 24"),
            _ramp_rtts(dynamics["plt"], 2 * step),
        ),
        (
            between("C: rise of LCM's loss ratio when a flow comes", 0, source=f"{_PAPER}, 24"),
            _loss_spike(dynamics["plt"], 3 * step),
        ),
        (
            between("D: PLT and bursts of 50 Mbit/s, use", 0.85, 0.95, source=f"{_PAPER}, 26"),
            at_50["plt"],
        ),
        (between("D: PLT's use above FAST's, least", 0, source=f"{_PAPER}, 26"), least),
        (
            within("E: TCP beside PLT over TCP beside TCP", 1, 0.1, source=f"{_PAPER}, 35"),
            _friendliness(quick),
        ),
        (
            between(
                "LCM's window where HCM fills the pipe, over that at 0.1 % of loss",
                high=0.1, source=f"{_PAPER}, 17",
            ),
            full / part,
        ),
    ]  # fmt: skip
    rows += [published.judge(ours) for published, ours in judged]
    tables = {
        "Random loss: goodput (Mbit/s)": [
            {"loss": loss, **{_CONTENDERS[name].label: round(dict(curve)[loss], 1)
                              for name, curve in curves.items()}}
            for loss, _ in curves["plt"]
        ],
        "Short flows: share done within round trips": [
            {"round trips": n, **{_CONTENDERS[name].label: round(float((done <= n).mean()), 3)
                                  for name, done in times.items()}}
            for n in (1, 2, 3, 5, 10)
        ],
        "UDP bursts: use of the link": [
            {"Mbit/s": mbps, **{_CONTENDERS[name].label: round(dict(curve)[mbps], 3)
                                for name, curve in bursts.items()}}
            for mbps, _ in bursts["plt"]
        ],
    }  # fmt: skip
    return Outcome(rows, lambda: _draw(curves, times, dynamics, bursts, saturated), tables)


def _draw(
    curves: dict[str, list[tuple[float, float]]],
    times: dict[str, NDArray[Any]],
    dynamics: dict[str, Result],
    bursts: dict[str, list[tuple[float, float]]],
    saturated: Result,
) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    colours = dict(zip(_CONTENDERS, COLOURS, strict=False))
    made, axes = figure(3, 2, (8.0, 8.0))
    loss_axis, short_axis = axes[0]
    for name, curve in curves.items():
        loss_axis.plot(
            *zip(*curve, strict=True), color=colours[name], marker="o", markersize=3,
            label=_CONTENDERS[name].label,
        )  # fmt: skip
    loss_axis.axvline(_MU, color=CAPACITY_COLOUR, linestyle=":", label="mu")
    loss_axis.set(xscale="log", xlabel="random loss", ylabel="goodput (Mbit/s)", ylim=(0, 260))
    loss_axis.legend(frameon=False, fontsize=6)
    for name, done in times.items():
        share = np.arange(1, done.size + 1) / done.size
        short_axis.plot(done, share, color=colours[name], label=_CONTENDERS[name].label)
    short_axis.set(xscale="log", xlabel="completion (round trips)", ylabel="share of flows")
    short_axis.xaxis.set_major_formatter("{x:g}")
    short_axis.legend(frameon=False, fontsize=7)
    for ax, (name, result) in zip(axes[1], dynamics.items(), strict=True):
        for index, flow in enumerate(("one", "two", "three", "four")):
            t, goodput = series(result, "flow_series", flow, "t", "goodput_bps")
            # What lies behind a hole is delivered at once: means of ten round trips are shown.
            whole = goodput.size // 10 * 10
            means = goodput[:whole].reshape(-1, 10).mean(axis=1)
            ax.plot(t[5:whole:10], means / 1e6, color=COLOURS[index], linewidth=1, label=flow)
        ax.set(xlabel="time (s)", ylabel="goodput (Mbit/s)", ylim=(0, 320))
        ax.set_title(_CONTENDERS[name].label, loc="left")
        ax.legend(frameon=False, fontsize=7, ncols=4, loc="upper center")
    burst_axis, window_axis = axes[2]
    for name, curve in bursts.items():
        burst_axis.plot(
            *zip(*curve, strict=True), color=colours[name], marker="o", markersize=3,
            label=_CONTENDERS[name].label,
        )  # fmt: skip
    burst_axis.set(xlabel="UDP bursts (Mbit/s)", ylabel="use of the link", ylim=(0, 1.02))
    burst_axis.legend(frameon=False, fontsize=7)
    for index, (name, label) in enumerate((("hcm_cwnd", "HCM"), ("lcm_cwnd", "LCM"))):
        t, value = _variable(saturated, "plt", name)
        window_axis.plot(t, value, color=COLOURS[index], linewidth=0.7, label=label)
    window_axis.axhline(WINDOW, color=CAPACITY_COLOUR, linestyle=":", label="pipe")
    window_axis.set(xlabel="time (s)", ylabel="window (packets)")
    window_axis.legend(frameon=False, fontsize=7)
    return made


PAPER = Paper(
    name="plt",
    title="A priority-layered transport against TCP, FAST and XCP",
    source="Venkataraman, Francis, Kodialam, Lakshman, CoNEXT 2008",
    setup=(
        "250 Mbit/s, 80 ms, packets of 1000 bytes, a buffer of 2500 packets (a bandwidth-delay "
        "product), for PLT strict priority with 2500 packets in each class; receive windows of "
        "20 MB, so that controllers and not they limit the flows. Random loss: means of four runs. "
        "Round-trip time, packet "
        "size, and PLT's constants (alpha, beta, mu, initial window, who sends again what the low "
        "class lost) are reconstructions; of the published results only the slides' words and a "
        "few numbers could be read, so tolerances are ours. Bursts of UDP are a second in two. "
        "PLT uses more of the link beside them than the slide shows; without UDP's bytes its own "
        "goodput is 0.88 of the capacity at 50 Mbit/s. "
        "Small buffers: 50 packets in each class, five flows of each kind, four random starts."
    ),
    run=_run,
)
