"""A commented study file to begin with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dumbbell._errors import UsageError
from dumbbell._scenario import Scenario
from dumbbell._scenario_links import Topology
from dumbbell._units import format_rate, format_time

DESIGNS: Mapping[str, str] = {
    "full": """[design]
kind = "full"               # all combinations
""",
    "fractional": """[design]
kind = "fractional"         # a regular two-level fraction, here 2^(3-1)
generators = { cc = "rate*rtt" }    # or resolution = 4: the smallest fraction of that resolution
# foldover = true           # add the runs with all signs turned
""",
    "plackett-burman": """[design]
kind = "plackett-burman"    # two-level screening
# foldover = true           # add the runs with all signs turned
""",
    "latin-hypercube": """[design]
kind = "latin-hypercube"    # random points, one in each stratum of each factor
runs = 16
seed = 1
""",
    "sobol": """[design]
kind = "sobol"              # points of a Sobol' sequence
runs = 16                   # a power of two
seed = 1                    # of the scrambling; scramble = false: as it is
""",
    "one-at-a-time": """[design]
kind = "one-at-a-time"      # the first level of all, then each other level alone
""",
    "table": """[design]
kind = "table"              # these runs: signs, or tables such as { rate = "10Mbit", ... }
rows = ["---", "+--", "-+-", "--+", "+++"]
""",
}

_TEMPLATE = """title = {title}
scenario = {scenario}       # a file relative to this one, preset:NAME, or a [scenario] table

# What is varied: the key in the scenario, and levels; or low, high and scale for ranges.
[factors]
{factors}
{design}
[responses]                 # a path into the summary, or a metric (dumbbell list metrics)
goodput = "flows[0].goodput_bps"
total = "sum flows.*.goodput_bps"
delay = "queue_delay_p95_ms"
fairness = "jain"
"""

_HEAD = """
replicates = 1              # runs of each condition, with seeds 1, 2, ...
seed = 1
seeds = "common"            # the same for all conditions of a replicate; or "distinct"
order = "standard"          # or "random"
# block = "replicate"       # or a factor, or a word of two-level factors such as "rate*rtt*cc"
"""


def template(scenario: Scenario, source: str, design: str) -> str:
    """A study of this scenario, which the study file calls `source`. Raises UsageError where there
    is nothing that a template would know to vary."""
    ranges = design in ("latin-hypercube", "sobol")
    factors = "".join(
        f"{name} = {_factor(key, values, ranges=ranges and name != 'cc')}\n"
        for name, (key, values) in _variables(scenario).items()
    )
    text = _TEMPLATE.format(
        title=json.dumps(scenario.title or "a study"),
        scenario=json.dumps(source),
        factors=factors,
        design=DESIGNS[design],
    )
    head, rest = text.split("\n\n", 1)
    return f"{head}\n{_HEAD}\n{rest}"


def _factor(key: str, values: list[Any], *, ranges: bool) -> str:
    low, high = (json.dumps(value) for value in values)
    if ranges:
        return f'{{ key = "{key}", low = {low}, high = {high}, scale = "log" }}'
    return f'{{ key = "{key}", levels = [{low}, {high}] }}'


def _variables(scenario: Scenario) -> dict[str, tuple[str, list[Any]]]:
    """Keys to vary and two levels of each."""
    if scenario.path is not None:
        place, rate, delay_key, delay = "path", scenario.path.rate, "rtt", scenario.path.rtt
    elif isinstance(scenario.topology, Topology):
        link = scenario.topology.links[0]
        place, rate, delay_key, delay = "topology.links[0]", link.rate, "delay", link.delay
    else:
        raise UsageError("expected a scenario with a [path] or a [topology]")
    tcp = [i for i, flow in enumerate(scenario.flows) if flow.transport == "tcp"]
    if rate is None or not delay or not tcp:
        raise UsageError("expected a scenario with a rate, a delay and a tcp flow")
    own = scenario.flows[tcp[0]].controller
    return {
        "rate": (f"{place}.rate", [_same_unit(format_rate(rate), r) for r in (1, 4)]),
        "rtt": (f"{place}.{delay_key}", [_same_unit(format_time(delay), r) for r in (1, 4)]),
        "cc": (f"flows[{tcp[0]}].cc", [own, "reno" if own != "reno" else "cubic"]),
    }


def _same_unit(quantity: str, factor: int) -> str:
    """A whole quantity times a factor, in its own unit."""
    digits = quantity.rstrip("abcdefghijklmnopqrstuvwxyzKMGT")
    return f"{int(digits) * factor}{quantity[len(digits) :]}"
