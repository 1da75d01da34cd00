"""Connections of one host that share their congestion window, beside a connection of another."""

from __future__ import annotations

from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dumbbell._fairness import jain
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, Published, between, thread_pool, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_E_TCP = "Eggert, Heidemann, Touch, ACM CCR 2000"
_CM = "RFC 3124"
_EFCM = "Savoric et al., Computer Networks 2005"
_CTRLTCP = "Islam et al., INFOCOM workshops 2018"
_RFC_9040 = "RFC 9040"
_ARITHMETIC = "arithmetic"

_PATH = {"rate": "10Mbit", "rtt": "100ms", "queue": {"kind": "fifo", "limit": "1bdp"}}
_COUNTS = (2, 4, 8)
_MOST = _COUNTS[-1]
_UNCOUPLED = "uncoupled"
_KINDS: dict[str, dict[str, Any]] = {
    _UNCOUPLED: {},
    "cm": {"kind": "cm"},
    "e-tcp": {"kind": "e-tcp"},
    "efcm": {"kind": "efcm"},
    "ctrltcp": {"kind": "ctrltcp"},
    "fse-window": {"kind": "fse-window"},
}
_SHORT_KINDS = (_UNCOUPLED, "tcb", "cm", "e-tcp", "efcm", "ctrltcp")
_SHORT_BYTES = 100_000
_RANDOM_LOSS = 0.001
_SEGMENTS = 62
"""Mean window of each side beside one flow: 3/4 of half of 2 BDP of 10 Mbit/s and 100 ms."""
_EXPECTED_ONE_BY_ONE = (235.0, 0.03)
"""A handshake, 100 ms, 70 frames of 1514 bytes at 10 Mbit/s, 85 ms, and the way there, 50 ms."""
_PRIORITIES = {"host-1": 1, "host-2": 2, "host-3": 4}


class _Point(NamedTuple):
    """What the long flows of a host got, means over repetitions."""

    share: float
    """Of all goodput."""
    fairness: float
    """Jain's index among them."""
    loss: float
    queue_ms: float


def _coupling(options: dict[str, Any], flows: list[str]) -> dict[str, Any]:
    return {"coupling": {"host": {"flows": flows, **options}}} if options else {}


def _beside_one(
    kind: dict[str, Any], count: int, repetition: int, quick: bool, **more: Any
) -> Result:
    """`count` Reno flows of a host beside one of another; a repetition shifts their starts."""
    names = [f"host-{i + 1}" for i in range(count)]
    first_ms = 200 + 211 * repetition
    return run_scenario(
        {
            "duration": "60s" if quick else "150s",
            "warmup": "20s" if quick else "30s",
            "path": _PATH,
            "flows": [
                {"id": "other", "cc": "reno"},
                *(
                    {"id": name, "cc": "reno", "start": f"{first_ms + 137 * i}ms"}
                    for i, name in enumerate(names)
                ),
            ],
            **_coupling({**kind, **more} if kind else {}, names),
        }
    )


def _share_with_delayed_acks(count: int) -> float:
    """Share that `count` connections with the window of one have beside one.

    Where an ACK is for two segments, half a segment of each connection waits for the next on
    average. Their rate is as much lower as W is to W + N/2, and so is the growth of W, since it is
    by ACKs.
    """
    slower = (_SEGMENTS + count / 2) / (_SEGMENTS + 1 / 2)
    return 1 / (1 + slower**2)


def _over_random_loss(kind: str, count: int, repetition: int, quick: bool) -> float:
    """Goodput of a host's flows together over a path that loses at random, an ACK each segment."""
    names = [f"host-{i + 1}" for i in range(count)]
    result = run_scenario(
        {
            "duration": "150s" if quick else "300s",
            "warmup": "20s",
            "seed": repetition + 1,
            "path": {
                "rate": "200Mbit",
                "rtt": "100ms",
                "queue": {"kind": "fifo", "limit": "10000p"},
                "loss": _RANDOM_LOSS,
            },
            "flows": [
                {"id": name, "cc": "reno", "ack_every": 1, "start": f"{100 + 137 * i}ms"}
                for i, name in enumerate(names)
            ],
            **_coupling(_KINDS[kind], names),
        }
    )
    return sum(_goodputs(result).values())


def _goodputs(result: Result) -> dict[str, float]:
    return {flow["id"]: flow["goodput_bps"] for flow in result.summary["flows"]}


def _point(results: list[Result]) -> _Point:
    shares, fairness, losses, queues = [], [], [], []
    for result in results:
        goodputs = _goodputs(result)
        other = goodputs.pop("other")
        members = list(goodputs.values())
        shares.append(sum(members) / (sum(members) + other))
        fairness.append(jain(members))
        flows = result.summary["flows"]
        losses.append(
            sum(flow["dropped_packets"] for flow in flows)
            / sum(flow["sent_packets"] for flow in flows)
        )
        queues.append(result.summary["links"][0]["queue_delay_ms"]["mean"])
    return _Point(mean(shares), mean(fairness), mean(losses), mean(queues))


def _beside_long(kind: str, quick: bool) -> float:
    """Mean completion time of transfers of a host that has a long flow as well, ms."""
    names = ["long", "short"]
    result = _transfers(
        kind,
        names,
        [
            {"id": "long", "cc": "reno"},
            {
                "id": "short",
                "cc": "reno",
                "start": "10s",
                "traffic": {"kind": "poisson", "size": f"{_SHORT_BYTES}B", "interval": "2s"},
            },
        ],
        "90s" if quick else "310s",
    )
    return 1000 * float(result.summary["flows"][1]["completion_s"])


def _one_by_one(kind: str) -> float:
    """Median completion time of transfers on a path that nothing else uses, ms."""
    names = [f"short-{i}" for i in range(20)]
    result = _transfers(
        kind,
        names,
        [
            {
                "id": name,
                "cc": "reno",
                "start": f"{1 + 2 * i}s",
                "traffic": {"kind": "size", "bytes": f"{_SHORT_BYTES}B"},
            }
            for i, name in enumerate(names)
        ],
        "45s",
    )
    return 1000 * median(float(flow["completion_s"]) for flow in result.summary["flows"])


def _transfers(kind: str, names: list[str], flows: list[dict[str, Any]], duration: str) -> Result:
    return run_scenario(
        {
            "duration": duration,
            "path": _PATH,
            "flows": flows,
            **_coupling({} if kind == _UNCOUPLED else {"kind": kind}, names),
        }
    )


def _by_priority(quick: bool) -> dict[str, float]:
    return _goodputs(
        _beside_one(_KINDS["ctrltcp"], len(_PRIORITIES), 0, quick, priorities=_PRIORITIES)
    )


def _judge(
    points: dict[tuple[str, int], _Point],
    own: _Point,
    weighted: dict[str, float],
    beside_long: dict[str, float],
    one_by_one: dict[str, float],
    random_loss: dict[int, float],
) -> list[dict[str, Any]]:
    n = _MOST

    def of(kind: str) -> _Point:
        return points[kind, n]

    apart = of(_UNCOUPLED)
    judged: list[tuple[Published, float]] = [
        (
            within(f"{n} uncoupled flows beside one: share, N / (N + 1)", n / (n + 1), 0.05,
                   source=_ARITHMETIC),
            apart.share,
        ),
        (
            within(f"{n} flows as E-TCP, random loss, an ACK each segment: goodput over that of "
                   "one connection", 1, 0.05, source=_E_TCP),
            random_loss[n] / random_loss[1],
        ),
        (
            within(f"{n} flows as E-TCP beside one: share of one connection whose ACKs {n} "
                   "receivers delay", _share_with_delayed_acks(n), 0.05, source=_ARITHMETIC),
            of("e-tcp").share,
        ),
        (
            within(f"{n} flows under a congestion manager beside one: the same",
                   _share_with_delayed_acks(n), 0.05, source=_ARITHMETIC),
            of("cm").share,
        ),
        (
            within(f"{n} flows, EFCM, each event its flow's own: share, as aggressive as N",
                   n / (n + 1), 0.05, source=_EFCM),
            own.share,
        ),
        *(
            (between(f"{n} flows, {kind}: Jain's index among them", 0.99, source=source),
             of(kind).fairness)
            for kind, source in (("cm", _CM), ("e-tcp", _E_TCP), ("efcm", _EFCM),
                                 ("ctrltcp", _CTRLTCP))
        ),
        *(
            (within(f"ctrlTCP: goodput of priority {priority} over that of priority 1", priority,
                    0.05, source=_CTRLTCP),
             weighted[name] / weighted["host-1"])
            for name, priority in list(_PRIORITIES.items())[1:]
        ),
        (
            between(f"{n} flows, ctrlTCP: loss over that of uncoupled ones", high=1,
                    source=_CTRLTCP),
            of("ctrltcp").loss / apart.loss,
        ),
        (
            between(f"{n} flows, ctrlTCP: queueing delay over that of uncoupled ones", high=1,
                    source=_CTRLTCP),
            of("ctrltcp").queue_ms / apart.queue_ms,
        ),
        (
            between("100 kB beside a long flow, ctrlTCP: time over that uncoupled", high=1,
                    source=_CTRLTCP),
            beside_long["ctrltcp"] / beside_long[_UNCOUPLED],
        ),
        (
            between("100 kB beside a long flow, control blocks: time over that uncoupled", high=1,
                    source=_RFC_9040),
            beside_long["tcb"] / beside_long[_UNCOUPLED],
        ),
        (
            within("100 kB one by one, control blocks: completion time", *_EXPECTED_ONE_BY_ONE,
                   unit="ms", source=_ARITHMETIC),
            one_by_one["tcb"],
        ),
    ]  # fmt: skip
    return [published.judge(ours) for published, ours in judged]


def _table(points: dict[tuple[str, int], _Point]) -> list[dict[str, Any]]:
    return [
        {
            "coupling": kind,
            "flows": count,
            "share of goodput": round(point.share, 3),
            "Jain's index": round(point.fairness, 4),
            "loss": f"{100 * point.loss:.2f} %",
            "queueing delay (ms)": round(point.queue_ms, 1),
        }
        for (kind, count), point in points.items()
    ]


def _run(quick: bool) -> Outcome:
    counts = (_MOST,) if quick else _COUNTS
    repetitions = range(5)
    with thread_pool() as pool:

        def point(kind: dict[str, Any], count: int, **more: Any) -> Any:
            runs = [
                pool.submit(_beside_one, kind, count, repetition, quick, **more)
                for repetition in repetitions
            ]
            return lambda: _point([run.result() for run in runs])

        waiting = {
            (name, count): point(kind, count) for name, kind in _KINDS.items() for count in counts
        }
        own = point(_KINDS["efcm"], _MOST, options={"signal": "own"})
        weighted = pool.submit(_by_priority, quick)
        long = {kind: pool.submit(_beside_long, kind, quick) for kind in _SHORT_KINDS}
        alone = {kind: pool.submit(_one_by_one, kind) for kind in _SHORT_KINDS}
        lossy = {
            n: [pool.submit(_over_random_loss, "e-tcp", n, i, quick) for i in repetitions]
            for n in (1, *counts)
        }
        points = {key: ready() for key, ready in waiting.items()}
        beside_long = {kind: run.result() for kind, run in long.items()}
        one_by_one = {kind: run.result() for kind, run in alone.items()}
        random_loss = {n: mean(run.result() for run in runs) for n, runs in lossy.items()}
        rows = _judge(points, own(), weighted.result(), beside_long, one_by_one, random_loss)
    completion = [
        {
            "coupling": kind,
            "beside a long flow, mean (ms)": round(beside_long[kind]),
            "one by one, median (ms)": round(one_by_one[kind]),
        }
        for kind in _SHORT_KINDS
    ]
    return Outcome(
        rows,
        lambda: _draw(points, counts, beside_long, one_by_one),
        {"Long flows of a host beside one of another": _table(points),
         "Completion time of 100 kB": completion,
         "E-TCP over random loss": [
             {"flows": n, "goodput (Mbit/s)": round(goodput / 1e6, 3)}
             for n, goodput in random_loss.items()
         ]},
    )  # fmt: skip


def _draw(
    points: dict[tuple[str, int], _Point],
    counts: tuple[int, ...],
    beside_long: dict[str, float],
    one_by_one: dict[str, float],
) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(2, 2, (6.8, 4.8))
    share, loss, queue, time = axes.flat
    markers = ("o", "s", "^", "v", "D", "x")
    # Dashed above what it may hide.
    dashes = ("-", "-", "--", "-", "--", "-")
    n = np.array(counts)
    for kind, colour, marker, dash in zip(_KINDS, COLOURS, markers, dashes, strict=True):
        mine = [points[kind, count] for count in counts]
        style: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "markersize": 4,
            "linestyle": dash,
        }
        share.plot(n, [point.share for point in mine], label=kind, **style)
        loss.plot(n, [100 * point.loss for point in mine], **style)
        queue.plot(n, [point.queue_ms for point in mine], **style)
    share.axhline(0.5, color=CAPACITY_COLOUR, linestyle="--", label="as one flow, 1/2")
    share.plot(n, n / (n + 1), color=CAPACITY_COLOUR, linestyle=":", label="as N flows, N/(N + 1)")
    share.set_ylim(0, 1)
    share.set_ylabel("share of goodput")
    loss.set_ylabel("loss (%)")
    queue.set_ylabel("queueing delay (ms)")
    for ax in (share, loss, queue):
        ax.set_xticks(n)
        ax.set_xlabel("flows of the host")
    for ax in (loss, queue):
        ax.set_ylim(bottom=0)
    places = np.arange(len(_SHORT_KINDS))
    for offset, values, colour, label in (
        (-0.2, beside_long, COLOURS[0], "beside a long flow"),
        (0.2, one_by_one, COLOURS[5], "one by one"),
    ):
        time.bar(
            places + offset, [values[k] for k in _SHORT_KINDS], 0.38, color=colour, label=label
        )
    time.set_xticks(places, _SHORT_KINDS, rotation=30, ha="right")
    time.set_ylabel("completion of 100 kB (ms)")
    time.legend(frameon=False)
    time.grid(visible=False, axis="x")
    made.legend(
        *share.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False
    )
    return made


PAPER = Paper(
    name="window-sharing",
    title="Connections of one host that share their window",
    source=(
        "RFC 3124; Eggert, Heidemann, Touch 2000; Savoric et al. 2005; RFC 9040; Islam et al. 2018"
    ),
    setup=(
        "10 Mbit/s, RTT 100 ms, a drop-tail buffer of 1 BDP. Two to eight Reno flows of a host "
        "run beside one Reno flow of another for 150 s, of which the first 30 are left out; "
        "starts 137 ms apart, means of five runs with other starts. Then the host sends 100 kB, "
        "at random every 2 s in the mean beside a long flow of its own, or every 2 s with the "
        "path to itself. No source has this set-up: what is judged is what the designs promise, "
        "as one connection or as N, equal or by priority, sooner or with less loss than apart. "
        "What is one connection is so where nothing but the window counts: over random loss, 0.1 "
        "% on a path of 200 Mbit/s, with an ACK for each segment. Where receivers delay ACKs, N "
        "of them hold back N times what one does, half a segment on average, of the same window "
        "W: beside one flow N have 1 / (1 + f^2) of the goodput, f = (W + N/2) / (W + 1/2), as W "
        "grows by ACKs, too."
    ),
    run=_run,
)
