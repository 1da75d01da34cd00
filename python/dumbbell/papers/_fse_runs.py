"""Runs of the flow state exchange's experiments, and what is measured in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dumbbell._fairness import jain
from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Published, series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dumbbell._results import Result

RATE_BPS = 10_000_000
PACKET_BYTES = 1000
HALF_BDP = 62
UPDATED = {"algorithm": "conservative", "scale_increase": True}
"""The exchange of the main results: the sum shrinks by the factor of the flow that backs off, and
grows as one flow does."""
SIMPLE = {"algorithm": "active"}

_SPREAD = 0.5
"""Of gaps. Coupled flows have exactly one rate: with equal gaps they would keep step for good, and
the same ones would find a drop-tail queue full each time (Floyd and Jacobson 1992)."""

_AS_SIMULATED: Mapping[str, Mapping[str, Any]] = {"tfrc": {"damping": True}}
"""What the slides' simulator, ns-2, does by default and ours does not (`Agent/TFRC set ca_ 1`)."""

SLIDES = "Islam, Welzl, Gjessing, Hayes, FSE slides"
RTT_MS = 100

Rows = list[dict[str, Any]]
Finished = tuple[list[tuple[Published, float]], dict[str, Rows]]
"""What is judged with what was measured, and tables by title."""
Part = Callable[[], Finished]
"""An experiment under way: waits for its runs."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Plan:
    """How long, how often, and at how many points."""

    seconds: int
    repeats: int
    flows: Sequence[int]
    ratios: Sequence[int]
    units_ms: Sequence[int]
    queues: Sequence[int]
    queue_flows: Sequence[int]
    simple_flows: Sequence[int]
    capacities_mbit: Sequence[int]
    priorities: Sequence[float]

    @property
    def warmup_s(self) -> int:
        """One RAP flow needs some 13 s to grow to 10 Mbit/s at 100 ms."""
        return min(20, self.seconds // 3)


FULL = Plan(
    seconds=300,
    repeats=10,
    flows=(2, 4, 6, 8, 10, 12, 14, 16, 18, 20),
    ratios=(5, 10, 15, 20),
    units_ms=(10, 20, 30),
    queues=(62, 90, 120, 150, 180),
    queue_flows=(10, 15),
    simple_flows=(2, 5, 10, 15, 20),
    capacities_mbit=(5, 10, 20, 40),
    priorities=(0.1, 0.25, 0.5, 0.75, 1.0),
)
QUICK = Plan(
    seconds=80,
    repeats=1,
    flows=(2, 10),
    ratios=(5, 20),
    units_ms=(10,),
    queues=(62, 180),
    queue_flows=(10,),
    simple_flows=(2, 10),
    capacities_mbit=(10,),
    priorities=(0.25, 1.0),
)


@dataclass(frozen=True)
class Setup:
    """Flows that share one queue. `exchange` is the options of the FSE, None: they are not coupled.

    The flows that stand in `flows` come before `rtts_ms` greedy ones.
    """

    transport: str
    rtts_ms: Sequence[float]
    exchange: Mapping[str, Any] | None
    queue: int = HALF_BDP
    rate_bps: int = RATE_BPS
    coupling: Mapping[str, Any] = field(default_factory=dict)
    limited: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Traffic of flows that are not greedy, by number."""
    others: Sequence[Mapping[str, Any]] = ()
    """Flows that are not coupled."""
    interval: str = "100ms"

    def run(self, plan: Plan, seed: int) -> Result:
        """Starts are uniform in the first second."""
        draw = random.Random(seed)
        flows: list[dict[str, Any]] = [
            {
                "id": f"flow-{i + 1}",
                "transport": self.transport,
                "rtt": f"{rtt}ms",
                "start": f"{draw.randrange(1, 1000)}ms",
                "options": {
                    "packet": f"{PACKET_BYTES}B",
                    "overhead": _SPREAD,
                    **_AS_SIMULATED.get(self.transport, {}),
                },
                **({"traffic": self.limited[i]} if i in self.limited else {}),
            }
            for i, rtt in enumerate(self.rtts_ms)
        ]
        scenario: dict[str, Any] = {
            "duration": f"{plan.seconds}s",
            "warmup": f"{plan.warmup_s}s",
            "seed": seed,
            "interval": self.interval,
            "path": {
                "rate": f"{self.rate_bps}bit",
                "rtt": f"{max(self.rtts_ms)}ms",
                "overhead": "none",
                "queue": {"kind": "fifo", "limit": f"{self.queue}p"},
            },
            "flows": [*flows, *map(dict, self.others)],
        }
        if self.exchange is not None:
            scenario["coupling"] = {
                "all": {"kind": "fse", "flows": ["flow"], "options": dict(self.exchange)}
                | dict(self.coupling)
            }
        return run_scenario(scenario)


@dataclass(frozen=True)
class Spread:
    """Mean over runs, and standard deviation."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = np.array([*values])
        return cls(float(found.mean()), float(found.std()))


def repeat(
    pool: Executor, plan: Plan, setup: Setup, measure: Callable[[Result], _T]
) -> Callable[[], list[_T]]:
    """Begin the runs of a setup; the answer waits for what was measured in each."""
    futures = [
        pool.submit(lambda seed: measure(setup.run(plan, seed)), seed)
        for seed in range(1, plan.repeats + 1)
    ]
    return lambda: [future.result() for future in futures]


def goodputs(result: Result) -> list[float]:
    """Of each flow, bit/s."""
    return [float(flow["goodput_bps"]) for flow in result.summary["flows"]]


def fairness(result: Result) -> float:
    """Jain's index of the goodputs."""
    return jain(goodputs(result))


@dataclass(frozen=True)
class Load:
    """What flows do to the link: average queue (packets), loss and use (fractions)."""

    queue: float
    loss: float
    used: float


def load(result: Result) -> Load:
    """After the warm-up; loss over the whole run."""
    table = columns(result, "link_series")
    late = table["t"] > result.config["warmup_ns"] / 1e9
    flows = result.summary["flows"]
    dropped = sum(flow["dropped_packets"] for flow in flows)
    return Load(
        queue=float(np.mean(table["queue_packets"][late])),
        loss=dropped / max(1, sum(flow["sent_packets"] for flow in flows)),
        used=float(result.summary["links"][0]["utilisation"]),
    )


def load_spread(loads: Sequence[Load]) -> dict[str, Spread]:
    """By what is measured."""
    return {
        name: Spread.of(getattr(one, name) for one in loads) for name in ("queue", "loss", "used")
    }


@dataclass(frozen=True)
class Allowed:
    """The rate that the first flow may send at and what it needs, after the warm-up."""

    below: float
    """Part of the time in which it is less."""
    least: float
    """Of the need."""
    back_offs: int


def allowed(result: Result, demand_bps: float) -> Allowed:
    t, rate = series(result, "flow_series", "flow-1", "t", "pacing_bps")
    rate = rate[(t > result.config["warmup_ns"] / 1e9) & np.isfinite(rate)]
    return Allowed(
        below=float(np.mean(rate < demand_bps)),
        least=float(rate.min() / demand_bps),
        back_offs=int(np.sum(rate[1:] < 0.9 * rate[:-1])),
    )


def back_off(result: Result) -> float:
    """What is left of the sum of rates when one flow backs off: median."""
    sums = variable(result, "flow-1", "fse_sum")[1]
    ratios = sums[1:] / sums[:-1]
    return float(np.median(ratios[ratios < 0.9]))


def variable(result: Result, flow: str, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Times and values of a recorded variable."""
    table = columns(result, "controller_series")
    rows = (table["flow"] == flow) & (table["name"] == name)
    return table["t"][rows], table["value"][rows]
