"""What flows with the flow state exchange do to the link: average queue, loss and use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from statistics import fmean
from typing import Any

from dumbbell.papers._fse_arithmetic import overflow_loss, sawtooth
from dumbbell.papers._fse_runs import (
    RTT_MS,
    SIMPLE,
    SLIDES,
    UPDATED,
    Finished,
    Load,
    Part,
    Plan,
    Rows,
    Setup,
    back_off,
    load,
    load_spread,
    repeat,
)
from dumbbell.papers._paper import between, within

_TRANSPORTS = ("rap", "tfrc")
_SIMPLE_RTT_MS = 10
_SIMPLE_QUEUE = 13
"""Packets: the bandwidth-delay product of 10 ms, as the slides say of it."""
_FULL_FROM = 15
"""Flows from which on the queue is full with and without the exchange."""
_MOST = 20
_SIMPLE_AXES = {"rap": 45.0, "tfrc": 14.0}
"""Where the slides' axes of loss end, %."""


def _loads(
    pool: Executor, plan: Plan, setups: list[tuple[dict[str, Any], Setup]]
) -> Callable[[], Rows]:
    begun = [(keys, repeat(pool, plan, setup, load)) for keys, setup in setups]

    def finish() -> Rows:
        return [{**keys, **_load_columns(runs())} for keys, runs in begun]

    return finish


def _load_columns(loads: list[Load]) -> dict[str, float]:
    spread = load_spread(loads)
    return {
        "queue (packets)": spread["queue"].mean,
        "spread of queue": spread["queue"].deviation,
        "loss (%)": 100 * spread["loss"].mean,
        "spread of loss": 100 * spread["loss"].deviation,
        "used (%)": 100 * spread["used"].mean,
        "spread of use": 100 * spread["used"].deviation,
    }


def flows(pool: Executor, plan: Plan) -> Part:
    setups = [
        (
            {"transport": transport, "flows": flows, "FSE": exchange is not None},
            Setup(transport, (RTT_MS,) * flows, exchange),
        )
        for transport in _TRANSPORTS
        for exchange in (UPDATED, None)
        for flows in ((1, *plan.flows) if exchange is None else plan.flows)
    ]
    wait = _loads(pool, plan, setups)

    def finish() -> Finished:
        rows = wait()
        source = f"{SLIDES}, slide 17"
        judged = []
        for transport in _TRANSPORTS:
            of = [row for row in rows if row["transport"] == transport]
            queue = _compared(of, plan.flows, "flows", "queue (packets)")
            judged.append(
                (
                    between(f"{transport}: queue with FSE over without, highest of all N",
                            high=1, source=source),
                    max(queue),
                )
            )  # fmt: skip
        rap = [row for row in rows if row["transport"] == "rap"]
        one = next(row["used (%)"] for row in rap if row["flows"] == 1)
        coupled = [row["used (%)"] for row in rap if row["FSE"]]
        judged += [
            (
                between("rap: loss with FSE over without, highest of all N", high=1,
                        source=source),
                max(_compared(rap, plan.flows, "flows", "loss (%)")),
            ),
            (
                within("rap: use of the link by one flow", 100 * sawtooth().use, 0.03, unit="%",
                       source="arithmetic of AIMD"),
                one,
            ),
            (
                between("rap: use with FSE against one flow's, greatest difference", high=5,
                        unit="points", source=source),
                max(abs(used - one) for used in coupled),
            ),
        ]  # fmt: skip
        return judged, {"number of flows": rows}

    return finish


def _compared(rows: Rows, points: Any, key: str, value: str) -> list[float]:
    """With over without FSE at each point."""
    at = {(row[key], row["FSE"]): row[value] for row in rows}
    return [at[point, True] / at[point, False] for point in points]


def queues(pool: Executor, plan: Plan) -> Part:
    setups = [
        (
            {
                "transport": transport,
                "flows": flows,
                "length (packets)": queue,
                "FSE": exchange is not None,
            },
            Setup(transport, (RTT_MS,) * flows, exchange, queue=queue),
        )
        for transport in _TRANSPORTS
        for flows in plan.queue_flows
        for exchange in (UPDATED, None)
        for queue in plan.queues
    ]
    wait = _loads(pool, plan, setups)

    def finish() -> Finished:
        rows = wait()
        judged = []
        for transport in _TRANSPORTS:
            ratios = [
                ratio
                for flows in plan.queue_flows
                for ratio in _compared(
                    [r for r in rows if (r["transport"], r["flows"]) == (transport, flows)],
                    plan.queues,
                    "length (packets)",
                    "queue (packets)",
                )
            ]
            judged.append(
                (
                    between(f"{transport}, queues of {min(plan.queues)} to {max(plan.queues)}: "
                            "average queue with FSE over without, highest", high=1,
                            source=f"{SLIDES}, slide 18"),
                    max(ratios),
                )
            )  # fmt: skip
        return judged, {"length of the queue": rows}

    return finish


def _lost_if_all_back_off(flows: int) -> float:
    """Loss with the simple algorithm over that without FSE where an overflow reaches all flows."""
    coupled, alone = (
        overflow_loss(flows, left, _SIMPLE_RTT_MS, _SIMPLE_QUEUE)
        for left in ((1 - 1 / (2 * flows)) ** flows, 1 / 2)
    )
    return coupled / alone


def simple(pool: Executor, plan: Plan) -> Part:
    setups = [
        (
            {"transport": transport, "flows": flows, "FSE": name},
            Setup(transport, (_SIMPLE_RTT_MS,) * flows, exchange, queue=_SIMPLE_QUEUE),
        )
        for transport in _TRANSPORTS
        for name, exchange in (("simple", SIMPLE), ("updated", UPDATED), ("none", None))
        for flows in plan.simple_flows
    ]
    wait = _loads(pool, plan, setups)
    decreases = {
        name: repeat(pool, plan, Setup("rap", (RTT_MS,) * 2, exchange, interval="10ms"), back_off)
        for name, exchange in (("simple", SIMPLE), ("updated", UPDATED))
    }

    def finish() -> Finished:
        rows = wait()
        at = {(r["transport"], r["flows"], r["FSE"]): r for r in rows}
        source = f"{SLIDES}, slides 25 to 27"

        def over(transport: str, value: str, flows: int) -> float:
            coupled, alone = (at[transport, flows, name][value] for name in ("simple", "none"))
            return float(coupled / alone)

        counts = plan.simple_flows
        fewer = [n for n in counts if _lost_if_all_back_off(n) < 1]
        judged = [
            (
                between(f"simple algorithm, {transport}, 13 packets, {min(chosen)} to "
                        f"{max(chosen)} flows: {what} over that without FSE, least", low=1,
                        source=source),
                min(over(transport, value, n) for n in chosen),
            )
            for transport, what, value, chosen in (
                ("rap", "queue", "queue (packets)", [n for n in counts if n < _FULL_FROM]),
                ("rap", "loss", "loss (%)", [n for n in counts if n not in fewer]),
                ("tfrc", "queue", "queue (packets)", [n for n in counts if n < _FULL_FROM]),
                ("tfrc", "loss", "loss (%)", counts),
            )
        ]  # fmt: skip
        judged.append(
            (
                between(f"simple algorithm, rap, 13 packets, {min(fewer)} to {max(fewer)} flows: "
                        "loss over that without FSE, greatest", high=1,
                        source="arithmetic of AIMD"),
                max(over("rap", "loss (%)", n) for n in fewer),
            )
        )  # fmt: skip
        if max(counts) == _MOST:
            judged += [
                (
                    within(
                        f"simple algorithm, {transport}, 13 packets: greatest loss (end of the "
                        "slide's axis)",
                        end,
                        0.15,
                        unit="%",
                        source=source,
                    ),
                    max(at[transport, n, "simple"]["loss (%)"] for n in counts),
                )
                for transport, end in _SIMPLE_AXES.items()
            ]
        left = {name: fmean(runs()) for name, runs in decreases.items()}
        judged += [
            (
                between("two flows, simple: left of their sum when one backs off", 0.7, 0.8,
                        source=source),
                left["simple"],
            ),
            (
                between("two flows, updated: left of their sum when one backs off", 0.45, 0.55,
                        source=source),
                left["updated"],
            ),
        ]  # fmt: skip
        return judged, {"simple algorithm": rows}

    return finish
