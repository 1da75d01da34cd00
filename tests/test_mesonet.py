"""The network and users of NIST SP 500-282: numbers that the study prints, and what follows from
them by arithmetic."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pyarrow
import pytest

from dumbbell._errors import ScenarioError
from dumbbell._resolve import resolve
from dumbbell._run import prepare, run
from dumbbell._scenario import Scenario
from dumbbell.mesonet._network import Network, apportion
from dumbbell.mesonet._parameters import Mesonet
from dumbbell.mesonet._responses import catalogue, groups
from dumbbell.mesonet._topology import (
    LINKS,
    Backbone,
    access_routers,
    path_class,
    routers,
)

EXPERIMENT_1A = {"base_sources": 1000, "x5": 2}
EXPERIMENT_1B = {"base_sources": 100, "x5": 2}


def network(**keys: Any) -> Network:
    return Network(Mesonet.model_validate(keys))


def config(duration: str = "20s", **keys: Any) -> dict[str, Any]:
    return resolve(Scenario.from_dict({"duration": duration, "mesonet": keys}))


def test_routers() -> None:
    """Names and classes of the study's figure: 11 backbone, 22 PoP and 139 access routers."""
    assert Counter(router.tier for router in routers().values()) == {
        "backbone": 11,
        "pop": 22,
        "N": 105,
        "F": 28,
        "D": 6,
    }
    assert routers()["A1g"].tier == "N"
    assert routers()["A2d"].tier == "F"
    assert routers()["K0a"].pop is None


def test_round_trips_of_the_backbone() -> None:
    """The study prints least 6, mean 41, greatest 100 ms for x2 = 1; the mean behind its buffers is
    2238/55 ms."""
    backbone = Backbone({name: ms * 10**6 for name, ms in LINKS.items()})
    times = backbone.round_trips()
    assert (len(LINKS), len(times)) == (14, 55)
    assert (min(times), max(times)) == (6_000_000, 100_000_000)
    assert backbone.mean_round_trip_ms() == Fraction(2238, 55)


@pytest.mark.parametrize(
    ("x3", "backbone", "pop", "normal", "fast", "direct"),
    [
        (800, 1600, 200, 20, 40, 200),
        (1600, 3200, 400, 40, 80, 400),
        (600, 1200, 150, 15, 30, 150),
        (1200, 2400, 300, 30, 60, 300),
        (4000, 8000, 1000, 100, 200, 1000),
        (8000, 16000, 2000, 200, 400, 2000),
        (16000, 32000, 4000, 400, 800, 4000),
    ],
)
def test_speeds(x3: int, backbone: int, pop: int, normal: int, fast: int, direct: int) -> None:
    """Speeds of the study's slides, packets a millisecond."""
    net = network(x3=x3)
    speeds = {router.tier: net.speed(router) for router in routers().values()}
    assert speeds == {"backbone": backbone, "pop": pop, "N": normal, "F": fast, "D": direct}


def test_rates_in_bits() -> None:
    """The study gives experiment 1a at x3 = 4000 as 96 Gbit/s in the backbone, 12 in PoPs and D,
    2.4 in F and 1.2 in N routers."""
    links = {link["id"]: link["capacity"]["bps"] for link in network(x3=4000).links}
    assert (links["A"], links["A1"], links["B0a"]) == (96 * 10**9, 12 * 10**9, 12 * 10**9)
    assert (links["A2a"], links["A1a"]) == (24 * 10**8, 12 * 10**8)


# Greatest, mean and least over the conditions of an experiment of the mean buffer of each tier, as
# printed, but for three slips: access 1b (copies of PoP entries, 6104 and 105), computed; least PoP
# of 2a,b at Q = 0.5, printed 4096 for 4069.
BUFFERS = [
    (
        EXPERIMENT_1A,
        (4000, 8000),
        "rtt-c",
        ((1_302_110, 732_437, 325_528), (162_764, 91_555, 40_691), (25_879, 14_557, 6_470)),
    ),
    (
        EXPERIMENT_1A,
        (4000, 8000),
        "rtt-c/sqrt-n",
        ((4_654, 2_606, 1_153), (908, 505, 221), (369, 207, 91)),
    ),
    (
        EXPERIMENT_1B,
        (600, 1200),
        "rtt-c",
        ((195_317, 109_866, 48_830), (24_415, 13_734, 6_104), (3_882, 2_184, 971)),
    ),
    (
        EXPERIMENT_1B,
        (600, 1200),
        "rtt-c/sqrt-n",
        ((2_208, 1_236, 547), (431, 240, 105), (175, 99, 44)),
    ),
    (
        {},
        (800, 1600),
        1.0,
        ((260_422, 146_487, 65_105), (32_553, 18_311, 8_138), (5_176, 2_912, 1_294)),
    ),
    (
        {},
        (800, 1600),
        0.5,
        ((130_211, 73_244, 32_553), (16_276, 9_155, 4_069), (2_588, 1_456, 647)),
    ),
    (
        {},
        (8000, 16000),
        1.0,
        ((2_604_219, 1_464_874, 651_055), (325_528, 183_110, 81_382), (51_757, 29_113, 12_939)),
    ),
    (
        {},
        (8000, 16000),
        0.5,
        ((1_302_109, 732_437, 325_527), (162_764, 91_555, 40_691), (25_878, 14_556, 6_469)),
    ),
]
TIERS = (("backbone",), ("pop",), ("N", "F", "D"))


@pytest.mark.parametrize(("fixed", "speeds", "rule", "printed"), BUFFERS)
def test_buffers(
    fixed: dict[str, Any],
    speeds: tuple[int, int],
    rule: str | float,
    printed: tuple[tuple[int, int, int], ...],
) -> None:
    """Tables of buffer sizes; the study rounds now up, now to the nearest, so they agree to one
    packet (the mean of the largest ones to one in a million)."""
    skews = ("uniform", "skewed") if isinstance(rule, str) else ("skewed",)
    sizes = [
        network(x2=x2, x3=x3, x4=rule, x6=skew, **fixed)
        for x2 in (1, 2)
        for x3 in speeds
        for skew in skews
    ]
    for tiers, (greatest, mean, least) in zip(TIERS, printed, strict=True):
        names = [name for name, router in routers().items() if router.tier in tiers]
        means = [sum(net.buffer(name) for name in names) / len(names) for net in sizes]
        assert max(means) == pytest.approx(greatest, abs=1.01)
        assert sum(means) / len(means) == pytest.approx(mean, abs=1.01)
        assert min(means) == pytest.approx(least, abs=1.01)


@pytest.mark.parametrize(
    ("keys", "total"),
    [
        ({**EXPERIMENT_1A, "x6": "uniform"}, 278_000),
        ({**EXPERIMENT_1A, "x6": "skewed"}, 174_600),
        ({**EXPERIMENT_1B, "x6": "uniform"}, 27_800),
        ({**EXPERIMENT_1B, "x6": "skewed"}, 17_460),
        # The study prints 26 085 here, one less for each N router: a truncated 0.1.
        ({"base_sources": 100, "x5": 3}, 26_190),
        ({"base_sources": 1000, "x5": 3}, 261_900),
    ],
)
def test_sources(keys: dict[str, Any], total: int) -> None:
    """Totals of the study's slides; none is lost where users are told apart by interface and
    algorithm."""
    net = network(x15=0.3, algorithm="ctcp", x8=0.7, **keys)
    assert sum(net.sources(router) for router in access_routers()) == total
    crowds = net.crowds()
    assert sum(crowd.count for crowd in crowds) == total
    fast = sum(crowd.count for crowd in crowds if crowd.interface == "fast")
    assert fast / total == pytest.approx(0.7, abs=3 / total)
    alternate = sum(crowd.count for crowd in crowds if crowd.role == "alternate")
    assert alternate / total == pytest.approx(0.3, abs=6 / total)


def test_hosts_of_a_router() -> None:
    """The study's examples: 2000 sources everywhere if uniform; 600, 3600, 1800 if skewed;
    receivers 7200, 2400, 2400."""
    uniform, skewed = network(x6="uniform", **EXPERIMENT_1A), network(x6="skewed", **EXPERIMENT_1A)
    ends = [routers()[name] for name in ("A1a", "A2a", "B0a")]
    assert [uniform.sources(end) for end in ends] == [2000, 2000, 2000]
    assert [skewed.sources(end) for end in ends] == [600, 3600, 1800]
    assert [skewed.receivers(end) for end in ends] == [7200, 2400, 2400]


@pytest.mark.parametrize(
    ("skew", "shares"),
    [
        (
            "uniform",
            {"NN": 68.18, "FN": 24.24, "FF": 1.62, "DN": 5.19, "DF": 0.69, "DD": 0.07},
        ),
        (
            "skewed",
            {"NN": 32.57, "FN": 55.00, "FF": 4.63, "DN": 6.20, "DF": 1.49, "DD": 0.11},
        ),
    ],
)
def test_classes_of_flows(skew: str, shares: dict[str, float]) -> None:
    """Shares (%) of flows by the classes of their ends, by hand: sources times receivers over all
    pairs of access routers; without those below one backbone router, within 1 %."""
    net = network(x6=skew)
    all_pairs: Counter[str] = Counter()
    receivers = [(target, net.receivers(target)) for target in access_routers()]
    for source in access_routers():
        count = net.sources(source)
        for target, of_target in receivers:
            all_pairs[path_class(source, target)] += count * of_target
    assert {
        name: pytest.approx(100 * n / all_pairs.total(), abs=0.01) for name, n in all_pairs.items()
    } == shares
    redrawn: dict[str, float] = dict.fromkeys(shares, 0.0)
    resolved = config(x6=skew)
    classes = resolved["users"]["classes"]
    total = sum(flow["traffic"]["count"] for flow in resolved["flows"])
    for flow in resolved["flows"]:
        destinations = flow["traffic"]["destinations"]
        weight = sum(d["weight"] for d in destinations)
        for d in destinations:
            part = flow["traffic"]["count"] * d["weight"] / weight / total
            redrawn[classes[d["class"]]] += 100 * part
    assert redrawn == pytest.approx(shares, abs=1.0)


def test_apportion() -> None:
    """Running sums 0.9, 1.8, 2.7, 3.6: nearest whole numbers 1, 2, 3, 4."""
    assert apportion([3, 3, 3, 3], Fraction(3, 10)) == [1, 1, 1, 1]
    assert apportion([1, 1, 1, 1], Fraction(3, 10)) == [0, 1, 0, 0]


def test_routes() -> None:
    """From Seattle to New York by Denver, Kansas City, Indianapolis and Chicago: 23 + 7 + 5 + 3 + 9
    = 47 ms; or by Sunnyvale, as long and a hop more. Back the same way."""
    resolved = config(x2=2)
    names = [link["id"] for link in resolved["links"]]
    source, target = names.index("A1a"), names.index("K2d")
    (path,) = (p for p in resolved["paths"] if p["route"][0] == source and p["route"][-1] == target)
    hops = [hop if isinstance(hop, list) else [hop, 0] for hop in path["route"]]
    assert [names[i] for i, _ in hops] == ["A1a", "A1", "A", "C", "E", "G", "I", "K", "K2", "K2d"]
    assert [delay for _, delay in hops] == [
        2_000_000 * ms for ms in (0, 0, 23, 7, 5, 3, 9, 0, 0, 0)
    ]
    back = [hop if isinstance(hop, list) else [hop, 0] for hop in path["reverse_route"]]
    assert [i for i, _ in back] == [i for i, _ in reversed(hops)]
    assert sum(delay for _, delay in back) == 94_000_000


def test_nobody_talks_below_one_backbone_router() -> None:
    """Each of the 139 routers with all but those below its own backbone router."""
    resolved = config()
    names = [link["id"] for link in resolved["links"]]
    for path in resolved["paths"]:
        assert names[path["route"][0]][0] != names[path["route"][-1]][0]
    below = Counter(router.backbone for router in access_routers())
    assert len(resolved["paths"]) == 139**2 - sum(n**2 for n in below.values())


def test_a_queue_for_each_link() -> None:
    """Each direction of 14 + 22 + 139 links, and a way to the hosts of 139 routers."""
    resolved = config(assumptions={"queue_per": "link"}, x2=2)
    links = resolved["links"]
    assert len(links) == 2 * (14 + 22 + 139) + 139
    (path,) = (
        p
        for p in resolved["paths"]
        if links[p["route"][0]]["id"] == "A1a->A1" and links[p["route"][-1]]["id"] == "D1c->hosts"
    )
    assert [links[i]["id"] for i in path["route"]] == [
        "A1a->A1",
        "A1->A",
        "A->B",
        "B->D",
        "D->D1",
        "D1->D1c",
        "D1c->hosts",
    ]
    assert sum(links[i]["delay_ns"] for i in path["route"]) == 2 * (12 + 3) * 1_000_000


def test_experiment_1() -> None:
    """Periods of five minutes after ten; jumbos in the second, long-lived flows from the first."""
    resolved = config(
        "25min",
        experiment=1,
        x12={"Fp": 0.1, "Sp": 0.0, "Mp": 0.0},
        x13={},
        x14=3,
        algorithm="scalable",
    )
    minute = 60 * 10**9
    assert [(p["name"], p["from_ns"], p["to_ns"]) for p in resolved["users"]["periods"]] == [
        ("tp1", 10 * minute, 15 * minute),
        ("tp2", 15 * minute, 20 * minute),
        ("tp3", 20 * minute, 25 * minute),
        ("all", 0, 25 * minute),
    ]
    users = resolved["flows"][0]["traffic"]
    assert [(f["file"], f["weight"], f["size"]["mean"]) for f in users["files"]] == [
        (0, 0.9, 144_800.0),
        (1, 0.1, 1_448_000.0),
    ]
    assert users["surges"] == [
        {"from_ns": 15 * minute, "to_ns": 20 * minute, "class": 0, "factor": 100.0}
    ]
    longs = [flow for flow in resolved["flows"] if flow["traffic"]["kind"] == "bulk"]
    assert [flow["start_ns"] for flow in longs] == [10 * minute] * 3
    names = [link["id"] for link in resolved["links"]]
    ends = [(names[flow["route"][0]], names[flow["route"][-1]]) for flow in longs]
    assert ends == [("B0a", "K0a"), ("C0a", "I0a"), ("E0a", "F0a")]


def test_protocols() -> None:
    """The study's TCP, and Scalable TCP's trigger of 16 packets."""
    resolved = config(algorithm="scalable", x15=0.7, x17=100)
    by_group: dict[int, Any] = {}
    for flow in resolved["flows"]:
        by_group.setdefault(flow["traffic"]["group"], flow["transport"])
    assert resolved["users"]["groups"] == [
        "alternate-fast",
        "alternate-normal",
        "tcp-fast",
        "tcp-normal",
    ]
    assert [by_group[g]["cc"]["kind"] for g in range(4)] == ["scalable", "scalable", "reno", "reno"]
    assert by_group[0]["cc"]["params"]["low_window"] == 16
    assert [by_group[g]["max_rate_bps"] for g in range(2)] == [960_000_000, 96_000_000]
    assert by_group[3]["cc"]["params"]["initial_ssthresh"] == 100
    assert (by_group[3]["initial_window"], by_group[3]["ack_every"]) == (2, 1)


def test_scale() -> None:
    """The authors scale speed and sources together: a tenth of both keeps packets per source."""
    whole, tenth = network(x3=800), network(x3=800, scale=0.1)
    for router in access_routers():
        assert tenth.speed(router) * 10 == whole.speed(router)
        assert tenth.sources(router) * 10 == whole.sources(router)
        assert tenth.receivers(router) * 10 == whole.receivers(router)
    interfaces = {
        flow["transport"]["max_rate_bps"]
        for flow in config(scale=0.1, assumptions={"scale_interfaces": True})["flows"]
    }
    assert interfaces == {96_000_000, 9_600_000}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"x3": -1}, "mesonet.x3 = -1: expected more than 0.0"),
        ({"x9": 5000}, 'mesonet.x9 = 5000: expected a time with unit, such as "80ms"'),
        (
            {"x6": [0.1, 0.6, 0.4]},
            "mesonet.x6: expected shares whose sum is 1",
        ),
        (
            {"x2": 1, "propagation": 2},
            "mesonet.x2 = 1: propagation is the same key, and is given too",
        ),
        (
            {"algorithm": "ctpc"},
            'mesonet.algorithm = "ctpc": expected the name of a controller; did you mean "ctcp"?',
        ),
        (
            {"long_lived": 4},
            "mesonet.long_lived = 4: there are 3 pairs in assumptions.long_lived_pairs",
        ),
        ({"x13": {"Jon": 0.9}}, "mesonet.x13.off: expected a fraction above on"),
    ],
)
def test_errors(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        prepare({"duration": "10s", "mesonet": keys})
    assert str(raised.value) == message


def test_own_flows_and_probes() -> None:
    """A flow of the scenario's own between access routers goes the way of the study's routers."""
    resolved = prepare(
        {
            "duration": "10s",
            "mesonet": {"scale": 0.1},
            "flows": [{"cc": "cubic", "from": "B0a", "to": "K0a"}],
            "probes": [{"kind": "ping", "from": "B0a", "to": "K0a"}],
        }
    ).config
    (flow,) = (flow for flow in resolved["flows"] if flow["traffic"]["kind"] == "bulk")
    delays = [hop[1] for hop in flow["route"] if isinstance(hop, list)]
    # Sunnyvale, Denver, Kansas City, Indianapolis, Chicago, New York.
    assert delays == [11_000_000, 7_000_000, 5_000_000, 3_000_000, 9_000_000]
    assert resolved["probes"][0]["route"] == flow["route"]
    with pytest.raises(ScenarioError, match="expected an access router"):
        prepare(
            {
                "duration": "10s",
                "mesonet": {},
                "flows": [{"cc": "cubic", "from": "B0a", "to": "K9a"}],
            }
        )


def test_catalogue() -> None:
    """Experiment 1: 45 responses of three periods and five totals; experiment 2: 16 and two for
    each of 24 groups, of which the first are movies on very fast paths and the last Web objects on
    typical paths with a normal interface."""
    first, second = (catalogue(Mesonet(experiment=number)) for number in (1, 2))
    assert [d.name for d in first[:45]] == [f"tp1.y{y}" for y in range(1, 46)]
    assert len(first) == 3 * 45 + 5
    assert len(second) == 16 + 2 * 48
    assert groups()[0] == ("movie", "very fast", "fast")
    assert groups()[8] == ("service-pack", "fast", "fast")
    assert groups()[23] == ("web", "typical", "normal")
    assert len({d.name for d in first + second}) == 140 + 112


def test_a_small_run() -> None:
    """What must hold whatever happens: users are somewhere, transfers end after they begin, packets
    arrive that were sent. And Little's law: as many think as transfers end a second, times the mean
    think time (within three standard errors of some 2500 thinks, 6 %)."""
    users = 873
    result = run(
        {
            "duration": "8s",
            "mesonet": {
                "scale": 0.05,
                "algorithm": "ctcp",
                "x15": 0.5,
                "x9": "1s",
                "x11": 8,
                "x12": {"Fp": 0.1, "Sp": 0.0, "Mp": 0.0},
            },
        }
    )
    rows = pyarrow.table(result.table("user_periods")).to_pylist()
    for row in rows:
        if row["period"] == "all":
            assert row["completed"] + row["gave_up"] <= row["connected"] <= row["started"]
            assert row["started"] <= row["syns"]
            assert row["retransmits"] <= row["sent"]
            assert row["arrived"] <= row["sent"] + row["syns"]
    transfers = pyarrow.table(result.table("transfers")).to_pylist()
    for period in ("half", "all"):
        of = [row for row in rows if row["period"] == period]
        states = ("thinking", "connecting", "slow_start", "normal", "alternate")
        assert sum(row[state] for row in of for state in states) == pytest.approx(users)
        completed = sum(row["completed"] for row in of)
        assert sum(t["count"] for t in transfers if t["period"] == period) == completed
    responses = result.summary["responses"]
    assert sum(responses[f"y{y}"] for y in (13, 14, 15, 16)) == pytest.approx(1)
    assert responses["y14"] == pytest.approx(0.1, abs=0.02)
    assert responses["y1"] == pytest.approx(sum(responses[f"y{y}"] for y in (2, 3, 4)))
    # The shortest round trip is 6 ms.
    assert responses["y11"] > 6
    per_second = responses["y12"] / 4
    assert per_second > 500
    thinking = sum(row["thinking"] for row in rows if row["period"] == "half")
    assert thinking == pytest.approx(per_second * 1.0, rel=0.06)
