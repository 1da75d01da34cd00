"""Activity-based congestion management: users get the same whatever they open or send."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, thread_pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_TALK = "ICCRG at IETF 99, activity-based congestion management"
_RATE_MBPS = 10
_HEAVY_FLOWS = 10
_GAMMAS = (0, 1, 2, 3, 5)
_USERS = ((1, 1), (1, 10), (5, 5), (10, 1))
_RTTS_MS = (10, 50, 100)
_UDP_MBPS = (5, 10, 15, 20)
_REFERENCE = (0.5, 4.0)
"""Reference rate of a user, in fair shares: below and above the use of all."""
_BURSTS = ("0B", "250kB", "500kB", "1MB")
_UPLOAD = "500kB"
_UPLOADS = 20
_UPLOAD_EVERY_S = 50
"""The reference rate fills the largest burst in 48 s."""
_HEAVY_BESIDE_UPLOADS = 5
_OTHERS: dict[str, dict[str, Any]] = {
    "FIFO": {"kind": "fifo", "limit": "1bdp"},
    "CSFQ": {"kind": "csfq", "edge": True},
    "WFQ": {"kind": "wfq", "isolate": "source", "limit": "200p"},
}


def _abc(users: int, gamma: float, share: float = 0.1, burst: str = "0B") -> dict[str, Any]:
    """The queue where `users` share the link; `share` is the reference rate in fair shares."""
    reference = round(share * _RATE_MBPS * 1e6 / users)
    return {
        "kind": "abc", "meter": True, "gamma": gamma, "reference_rate": f"{reference}bit",
        "burst": burst,
    }  # fmt: skip


def _users(heavy: int, light: int) -> list[dict[str, Any]]:
    """Heavy users have ten flows each, light ones a single flow."""
    return [
        *(
            {"id": f"heavy{i}-", "cc": "cubic", "host": f"heavy{i}", "count": _HEAVY_FLOWS,
             "stagger": "100ms"}
            for i in range(heavy)
        ),
        *(
            {"id": f"light{i}", "cc": "cubic", "host": f"light{i}", "start": f"{50 * i}ms"}
            for i in range(light)
        ),
    ]  # fmt: skip


def _go(
    queue: dict[str, Any], flows: Sequence[dict[str, Any]], rtt_ms: int, seconds: int = 60
) -> Result:
    return run_scenario(
        {
            "duration": f"{seconds}s",
            "warmup": "10s",
            "path": {"rate": f"{_RATE_MBPS}Mbit", "rtt": f"{rtt_ms}ms", "queue": queue},
            "flows": list(flows),
        }
    )


def _goodput(result: Result, prefix: str) -> float:
    return sum(
        float(flow["goodput_bps"])
        for flow in result.summary["flows"]
        if flow["id"].startswith(prefix)
    )


def _ratio(queue: dict[str, Any], users: tuple[int, int], rtt_ms: int) -> float:
    """Mean rate of a heavy user over that of a light one."""
    heavy, light = users
    result = _go(queue, _users(heavy, light), rtt_ms)
    return (_goodput(result, "heavy") / heavy) / (_goodput(result, "light") / light)


def _udp_ratio(queue: dict[str, Any], mbps: int) -> float:
    """Rate of a user with UDP over the mean of five users with a TCP flow each."""
    light = 5
    udp = {
        "id": "udp", "transport": "udp", "host": "udp",
        "traffic": {"kind": "rate", "rate": f"{mbps}Mbit"},
    }  # fmt: skip
    result = _go(queue, [udp, *_users(0, light)], 50)
    return _goodput(result, "udp") / max(_goodput(result, "light") / light, 1.0)


def _upload_s(burst: str) -> float:
    """Mean time of a light user's uploads beside heavy users."""
    uploads = [
        {"id": f"upload{i}", "cc": "cubic", "host": "light", "size": _UPLOAD,
         "start": f"{10 + _UPLOAD_EVERY_S * i}s"}
        for i in range(_UPLOADS)
    ]  # fmt: skip
    result = _go(
        _abc(_HEAVY_BESIDE_UPLOADS + 1, 3, burst=burst),
        [*_users(_HEAVY_BESIDE_UPLOADS, 0), *uploads],
        50,
        10 + _UPLOAD_EVERY_S * _UPLOADS,
    )
    times = [flow["completion_s"] for flow in result.summary["flows"] if "upload" in flow["id"]]
    return fmean(times)


def _run(quick: bool) -> Outcome:
    rtts = (50,) if quick else _RTTS_MS
    with thread_pool() as pool:
        points = [(users, rtt, gamma) for users in _USERS for rtt in rtts for gamma in _GAMMAS]
        ratios = dict(zip(points, pool.map(
            lambda p: _ratio(_abc(sum(p[0]), p[2]), p[0], p[1]), points
        ), strict=True))  # fmt: skip
        others = {
            name: list(pool.map(lambda users, q=queue: _ratio(q, users, 50), _USERS))
            for name, queue in _OTHERS.items()
        }
        plain = list(pool.map(lambda mbps: _udp_ratio(_abc(6, 0), mbps), _UDP_MBPS))
        tamed = list(pool.map(lambda mbps: _udp_ratio(_abc(6, 3), mbps), _UDP_MBPS))
        below, above = pool.map(
            lambda share: _ratio(
                {**_abc(10, 3, share), "coding": "log"}, (5, 5), 50,
            ), _REFERENCE,
        )  # fmt: skip
        uploads = list(pool.map(_upload_s, _BURSTS))
    off = [ratio for (_, _, gamma), ratio in ratios.items() if gamma == 0]
    on = [ratio for (_, _, gamma), ratio in ratios.items() if gamma == 3]
    falls = sum(later < before for before, later in pairwise(uploads))
    judged = [
        (between("gamma 0: least ratio", 8, 11, source=_TALK), min(off)),
        (between("gamma 0: greatest ratio", 8, 11, source=_TALK), max(off)),
        (between("gamma 3: least ratio", 0.8, 1.5, source=_TALK), min(on)),
        (between("gamma 3: greatest ratio", 0.8, 1.5, source=_TALK), max(on)),
        (
            between("logarithm of the activity, reference rate half a fair share: ratio", 0.8, 1.5,
                    source=_TALK),
            below,
        ),
        (
            between("the same at four fair shares", 5, source=_TALK),
            above,
        ),
        (between("UDP at 20 Mbit/s, gamma 0: ratio", 10, source=_TALK), plain[-1]),
        (between("UDP at 5 to 20 Mbit/s, gamma 3: greatest ratio", high=2, source=_TALK),
         max(tamed)),
        (
            between("steps of burst tolerance that shorten uploads", len(_BURSTS) - 1,
                    source=_TALK),
            float(falls),
        ),
        (
            between("CSFQ: greatest ratio", high=1.5, source="Stoica et al., SIGCOMM 1998"),
            max(others["CSFQ"]),
        ),
        (
            between("WFQ for users: greatest ratio", high=1.05, source="Demers et al., 1989"),
            max(others["WFQ"]),
        ),
    ]  # fmt: skip
    rows = [published.judge(ours) for published, ours in judged]
    shown = {"gamma": ratios, "udp": (plain, tamed), "uploads": uploads, "others": others}
    tables = {
        "Ratio by queue and users at 50 ms": [
            {"queue": name, **dict(zip(map(_named, _USERS), values, strict=True))}
            for name, values in {
                **others,
                "ABC, gamma 3": [ratios[users, 50, 3] for users in _USERS],
            }.items()
        ]
    }
    return Outcome(rows, lambda: _draw(shown), tables)


def _named(users: tuple[int, int]) -> str:
    return f"{users[0]} heavy, {users[1]} light"


def _draw(shown: dict[str, Any]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(1, 3, (9.0, 2.9))
    left, middle, right = axes[0]
    for index, users in enumerate(_USERS):
        ratios = [shown["gamma"][users, 50, gamma] for gamma in _GAMMAS]
        left.plot(_GAMMAS, ratios, "o-", markersize=3, color=COLOURS[index], label=_named(users))
    left.set_yscale("log")
    left.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    left.minorticks_off()
    left.set_xlabel("differentiation factor gamma")
    left.set_ylabel("heavy user's rate\nover light user's")
    for ratios, label, colour in zip(
        shown["udp"], ("gamma 0", "gamma 3"), (COLOURS[4], COLOURS[5]), strict=True
    ):
        middle.plot(_UDP_MBPS, ratios, "o-", markersize=3, color=colour)
        middle.annotate(label, (_UDP_MBPS[-1], ratios[-1]), xytext=(-4, 5), fontsize=8, ha="right",
                        textcoords="offset points")  # fmt: skip
    middle.set_yscale("log")
    middle.set_xlabel("one user's UDP on 10 Mbit/s (Mbit/s)")
    middle.set_ylabel("UDP user's rate\nover TCP user's")
    right.plot(range(len(_BURSTS)), shown["uploads"], "o-", markersize=3, color=COLOURS[0])
    right.set_xticks(range(len(_BURSTS)), _BURSTS)
    right.set_ylim(bottom=0)
    right.set_xlabel("burst tolerance")
    right.set_ylabel(f"upload of {_UPLOAD} (s)")
    made.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=4,
                frameon=False)  # fmt: skip
    return made


PAPER = Paper(
    name="abc-fairness",
    title="Activity-based congestion management: fair to users without state for them",
    source="M. Menth, ICCRG at IETF 99; Menth and Zeitler, NOMS 2016 and IEEE Access 2018",
    setup=(
        "10 Mbit/s; heavy users have ten CUBIC flows, light ones one; base RTT 10, 50 and 100 ms, "
        "60 s of which 10 s are left out. The activity of a user is its rate over a reference of a "
        "tenth of the fair share; the drop probability of a linear RED from 5 to 50 ms is raised "
        "to the power (average activity / activity)^gamma. Uploads of 500 kB come every 50 s "
        "beside five heavy users. The talk gives neither formula nor AQM, nor all numbers of users."
    ),
    run=_run,
)
