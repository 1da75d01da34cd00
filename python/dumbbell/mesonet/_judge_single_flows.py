"""Statements about single flows and pairs of flows, which the experiments do not tell.

The docstring of each function says what must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean, median

import numpy as np

from dumbbell._run import run
from dumbbell.mesonet._finding import Finding
from dumbbell.mesonet._measured import FAST, FAST_AT, TCP, Experiments, Judged, Part, finding
from dumbbell.mesonet._parameters import ALGORITHMS
from dumbbell.mesonet._single_flows import LOW_THRESHOLD, Controller, access_path, flow, reductions
from dumbbell.mesonet.latency import BIC_OF_LINUX, Latencies, latencies, rises_of_linux
from dumbbell.mesonet.published import FINAL_TABLE
from dumbbell.papers._paper import series, thread_pool

BIC, CTCP, HSTCP, HTCP, SCALABLE = "bic", "ctcp", "hstcp", "htcp", "scalable"
WINDOWED = (BIC, CTCP, HSTCP, SCALABLE)
"""Algorithms that are TCP in small windows."""
GENTLE = (SCALABLE, BIC, HSTCP)
"""Those that the study says cut by less than half."""
SAME = 0.05
HALF = 0.01
WELL_BELOW = 0.8
SPORADIC = 1e-5
HEAVY = (0.1, 0.2, 0.3, 0.5)
SPACINGS = (100, 200, 300, 500, 1000, 2000, 5000, 20_000)
"""Packets from loss to loss."""
SHARE = 0.4
"""80 % of a fair share of two."""
AGREEMENT = 0.8
SLOW = 2.0
BY_FAR = 1.5
_LATE_S = 50


def _goodputs(
    flows: Mapping[str, Controller], *, loss: object, duration_s: int, seed: int = 1,
    delay_ms: int = 21, buffer: float = 0.5, warmup_s: int = 0,
) -> dict[str, float]:  # fmt: skip
    """Bits a second of flows that share the access of the verification dumbbell."""
    result = run(
        {
            "duration": f"{duration_s}s",
            "warmup": f"{warmup_s}s",
            "interval": 0,
            "seed": seed,
            "path": access_path(delay_ms, buffer=buffer, loss=loss),
            "flows": [flow(controller, name) for name, controller in flows.items()],
        }
    )
    return {one["id"]: one["goodput_bps"] for one in result.summary["flows"]}


def beside_tcp(name: str, quick: bool) -> float:
    """Goodput of an algorithm over that of TCP beside it, with 10^-5 of random loss."""
    duration_s, seeds = (20, 1) if quick else (100, 2)
    total = {"a": 0.0, TCP: 0.0}
    for seed in range(1, seeds + 1):
        pair = {"a": ALGORITHMS[name], TCP: ALGORITHMS[TCP]}
        found = _goodputs(pair, loss=SPORADIC, duration_s=duration_s, warmup_s=5, seed=seed)
        total = {one: total[one] + found[one] for one in total}
    return total["a"] / total[TCP]


def under_heavy_loss(name: str, loss: float) -> float:
    """Goodput with random loss over that of TCP alone on the same path, three runs of 200 s."""

    def goodput(controller: Controller) -> float:
        one = {"f": controller}
        return sum(_goodputs(one, loss=loss, duration_s=200, seed=s)["f"] for s in (1, 2, 3))

    return goodput(ALGORITHMS[name]) / goodput(ALGORITHMS[TCP])


def with_close_losses(controller: Controller, spacing: int) -> float:
    """Goodput with a loss every so many packets over that of TCP alone on the same path."""
    loss = {"kind": "periodic", "period": spacing}

    def goodput(one: Controller) -> float:
        return _goodputs({"f": one}, loss=loss, duration_s=120, warmup_s=10)["f"]

    return goodput(controller) / goodput(ALGORITHMS[TCP])


@dataclass(frozen=True)
class LateComer:
    """A flow that comes 50 s after another of the same algorithm: seconds to 80 % of its fair share
    over 5 s (infinite if it does not get there), and its mean share in its first 50 s."""

    seconds: float
    share: float


def late_comer(name: str, delay_ms: int, lasting_s: int) -> LateComer:
    """On the verification dumbbell, with the low slow-start threshold."""
    flows = [
        flow(ALGORITHMS[name], one, ssthresh=LOW_THRESHOLD, start=start)
        for one, start in (("first", 0), ("late", f"{_LATE_S}s"))
    ]
    result = run(
        {
            "duration": f"{_LATE_S + lasting_s}s",
            "interval": "1s",
            "path": access_path(delay_ms, buffer=0.1),
            "flows": flows,
        }
    )
    t, late = series(result, "flow_series", "late", "t", "goodput_bps")
    first_t, first = series(result, "flow_series", "first", "t", "goodput_bps")
    shared = np.interp(t, first_t, first)
    late, shared, t = late[t > _LATE_S], shared[t > _LATE_S], t[t > _LATE_S]
    five = np.ones(5)
    share = np.convolve(late, five, "valid") / np.convolve(late + shared, five, "valid")
    there = np.flatnonzero(share >= SHARE)
    begun = t <= 2 * _LATE_S
    return LateComer(
        float(t[there[0] + 4] - _LATE_S) if len(there) else float("inf"),
        float(late[begun].sum() / (late[begun] + shared[begun]).sum()),
    )


def sporadic_losses(measured: Latencies) -> Judged:
    """F8. On the access of the verification dumbbell, 252 Mbit/s and 42 ms:

    - with a buffer of half of a BDP and 2 in 100 000 packets lost at random, all cuts of Scalable,
      BIC and HSTCP leave more than half of the window, those of CTCP, FAST and FAST-AT half (within
      0.01), those of H-TCP 0.5 to 0.8;
    - with 1 in 100 000 lost Scalable, BIC and HSTCP each get more than a TCP flow beside them.
    """
    with thread_pool() as pool:
        names = (*GENTLE, CTCP, FAST, FAST_AT, HTCP)
        lasting_s = 20 if measured.quick else 60
        found = pool.map(lambda name: reductions(ALGORITHMS[name], lasting_s), names)
        cuts = dict(zip(names, found, strict=True))
        ratios = dict(
            zip(GENTLE, pool.map(lambda n: beside_tcp(n, measured.quick), GENTLE), strict=True)
        )
    number = "factors of cuts: " + ", ".join(
        f"{name} {_range(cut.min(), cut.max())}" for name, cut in cuts.items()
    )
    halves = [abs(cuts[name] - 0.5).max() <= HALF for name in (CTCP, FAST, FAST_AT)]
    parts = [
        Part("Scalable, BIC, HSTCP cut less", min(cuts[n].min() for n in GENTLE) > 0.5, number),
        Part("CTCP, FAST, FAST-AT halve", all(halves)),
        Part(
            "H-TCP cuts 20 to 50 %",
            bool(cuts[HTCP].min() >= 0.5 - HALF and cuts[HTCP].max() <= 0.8 + HALF),
        ),
        Part(
            "more than TCP beside them",
            min(ratios.values()) > 1,
            "goodput over that of TCP beside it: "
            + ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items()),
        ),
    ]
    return Judged(parts, ())


def heavy_losses(measured: Latencies) -> Judged:
    """F10. Alone on that path with 10, 20, 30 and 50 % of random loss:

    - goodputs of BIC, CTCP, HSTCP and Scalable are within 5 % of TCP's;
    - FAST's is not, at one of them at least.
    """
    del measured
    ratios = {
        name: [under_heavy_loss(name, p) for p in HEAVY]
        for name in (*WINDOWED, FAST, FAST_AT, HTCP)
    }
    text = "; ".join(
        f"{name} {' '.join(f'{ratio:.2f}' for ratio in ratios[name])}"
        for name in (FAST, FAST_AT, HTCP)
    )
    off = max(abs(ratio - 1) for name in WINDOWED for ratio in ratios[name])
    return Judged(
        [
            Part(
                "windowed triggers as TCP",
                off <= SAME,
                f"goodput over TCP's at 10, 20, 30, 50 % loss: {', '.join(WINDOWED)} within "
                f"{100 * off:.1f} %; {text}",
            ),
            Part("FAST not", max(abs(ratio - 1) for ratio in ratios[FAST]) > SAME),
        ],
        (),
    )


def close_losses(measured: Latencies) -> Judged:
    """F11. Alone on that path with one packet in 100, 200, ... 20 000 lost, BIC's goodput is less
    than 0.8 of TCP's at one of these spacings at least."""
    del measured
    ratios = {spacing: with_close_losses(ALGORITHMS[BIC], spacing) for spacing in SPACINGS}
    text = ", ".join(f"{ratio:.2f} at 1/{spacing}" for spacing, ratio in ratios.items())
    part = Part(
        "well below TCP", min(ratios.values()) < WELL_BELOW, f"BIC's goodput over TCP's: {text}"
    )
    if part.holds:
        return Judged([part], ())
    linux = {spacing: with_close_losses(BIC_OF_LINUX, spacing) for spacing in SPACINGS}
    least = min(linux, key=linux.__getitem__)
    reason = (
        f"Linux's BIC, which ends its search with a segment in five round trips, has "
        f"{linux[least]:.2f} at 1/{least}, but the paper's, which is in its place because of F17, "
        "halves its way to the maximum"
    )
    return Judged([part], (), (reason,))


def late_comers(measured: Latencies) -> Judged:
    """F14. On the verification dumbbell with delays of 21 and 81 ms, a flow that starts 50 s after
    another of the same algorithm, with a slow-start threshold of 100: with Scalable, BIC and HSTCP,
    each, it takes longer than a late flow of TCP to 80 % of its fair share (over 5 s)."""
    delays, lasting_s = ((21,), 50) if measured.quick else ((21, 81), 200)
    names = (*GENTLE, TCP) if measured.quick else tuple(ALGORITHMS)
    with thread_pool() as pool:
        keys = [(name, delay) for name in names for delay in delays]
        late = pool.map(lambda key: late_comer(key[0], key[1], lasting_s), keys)
        found = dict(zip(keys, late, strict=True))
    texts = []
    for delay in delays:
        times = (
            f"{name} {_seconds(found[name, delay].seconds, lasting_s)} "
            f"({100 * found[name, delay].share:.0f} %)"
            for name in names
        )
        texts.append(
            f"{delay} ms one way, time to 80 % of the fair share (share of the first 50 s): "
            + ", ".join(times)
        )
    parts = [
        Part(
            f"{name} slower than TCP",
            all(found[name, d].seconds > found[TCP, d].seconds for d in delays),
            "; ".join(texts),
        )
        for name in GENTLE
    ]
    reasons = []
    for name, part in zip(GENTLE, parts, strict=True):
        if not part.holds and all(found[name, d].share < found[TCP, d].share for d in delays):
            reasons.append(
                f"{name}'s late flow has less in its first 50 s than TCP's at each delay, but on "
                "the longer path a late flow of TCP, which adds a packet a round trip, takes even "
                "longer to its share"
            )
    return Judged(parts, (), reasons)


def latency_orders(measured: Latencies) -> Judged:
    """F17. Spearman's rank correlation of the seven mean latencies with the published ones is at
    least 0.8, for goodput latency and for recovery latency."""
    from scipy.stats import spearmanr

    names = list(FINAL_TABLE)
    published = {
        "goodput": [FINAL_TABLE[name].goodput_s for name in names],
        "recovery": [FINAL_TABLE[name].recovery_s for name in names],
    }
    ours = {"goodput": measured.mean_goodput(), "recovery": measured.mean_recovery()}
    parts = []
    for kind, means in ours.items():
        rho = float(spearmanr([means[name] for name in names], published[kind]).statistic)
        shown = ", ".join(f"{n} {means[n]:.1f}" for n in sorted(names, key=means.__getitem__))
        parts.append(Part(f"{kind} latency", rho >= AGREEMENT, f"{kind}: {rho:.2f} ({shown} s)"))
    linux = mean(rise.latency for rise in rises_of_linux(measured.quick))
    changed = [linux if name == BIC else ours["goodput"][name] for name in names]
    rho = float(spearmanr(changed, published["goodput"]).statistic)
    parts[0] = replace(
        parts[0],
        number=f"{parts[0].number}; with Linux's BIC, which grows by at least 5 % a round trip "
        f"before its first loss, {rho:.2f} (bic {linux:.1f} s): BIC's rules were chosen by this "
        "number, so that the order is no independent check of BIC",
    )
    reason = (
        "how the study measured is not public: its HSTCP and CTCP recover in less than half of "
        "the time that they take from a window of 100, ours from windows that 1 % of loss has "
        "brought below that"
    )
    return Judged(parts, (), (reason,))


def fast_is_fast(measured: Latencies) -> Judged:
    """F18. On the path of the long one of the long-lived flows:

    - at each propagation FAST and FAST-AT have the two shortest goodput latencies of the seven;
    - after one loss both are back at the highest rate no later than the median of the seven;
    - after sustained losses FAST-AT takes at least twice as long as FAST (mean).
    """
    places = [i for i, c in enumerate(measured.conditions) if c.path == "long"]
    parts = []
    texts, firsts = [], []
    for i in places:
        times = {name: rises[i].latency for name, rises in measured.goodput.items()}
        ranked = sorted(times, key=times.__getitem__)
        firsts.append(max(times[FAST], times[FAST_AT]) <= times[ranked[1]])
        texts.append(
            f"{measured.conditions[i].rtt_ms} ms: "
            + ", ".join(f"{n} {times[n]:.1f}" for n in ranked)
        )
    parts.append(
        Part("first at the highest rate", all(firsts), f"goodput latency, s: {'; '.join(texts)}")
    )
    single = {n: mean(rises[i].latency for i in places) for n, rises in measured.single.items()}
    parts.append(
        Part(
            "quick after one loss",
            max(single[FAST], single[FAST_AT]) <= median(single.values()),
            f"after one loss: {_listing(single)} s",
        )
    )
    lasting = {n: mean(rises[i].latency for i in places) for n, rises in measured.recovery.items()}
    parts.append(
        Part(
            "FAST-AT slow after sustained losses",
            lasting[FAST_AT] >= SLOW * lasting[FAST],
            f"after sustained losses: fast {lasting[FAST]:.1f}, fast-at {lasting[FAST_AT]:.1f} s",
        )
    )
    reason = (
        "on the longest path H-TCP, whose growth is by time, is before FAST, which adds at most "
        "half of alpha a round trip, and before FAST-AT, whose alpha falls there from 200 to 20"
    )
    return Judged(parts, (), (reason,))


def bic_recovers_last(measured: Latencies) -> Judged:
    """F19. BIC's mean recovery latency is the longest of the seven; and by far: at least 1.5 times
    the next."""
    means = measured.mean_recovery()
    next_ = max(value for name, value in means.items() if name != BIC)
    return Judged(
        [
            Part(
                "longest",
                means[BIC] > next_,
                f"recovery latency: {_listing(means)} s (published for bic: 71.3)",
            ),
            Part("by far", means[BIC] >= BY_FAR * next_),
        ],
        (),
        (
            "after sustained losses BIC grows by at most 16 packets a round trip, HSTCP by fewer "
            "until its window is about 4000",
        ),
    )


STATEMENTS: dict[str, tuple[str, Callable[[Latencies], Judged]]] = {
    "F8": (
        "At sporadic losses Scalable, BIC and HSTCP cut by less than half and get more than TCP "
        "flows beside them; CTCP, FAST and FAST-AT halve; H-TCP cuts by 20 to 50 %.",
        sporadic_losses,
    ),
    "F10": (
        "Under extreme loss algorithms with a window as trigger act as Reno and have no advantage; "
        "FAST does not.",
        heavy_losses,
    ),
    "F11": ("After repeated, closely spaced losses BIC may fall well below TCP.", close_losses),
    "F14": ("Scalable, BIC and HSTCP are unfair to newly arriving flows.", late_comers),
    "F17": (
        "Goodput and recovery latencies of the algorithms follow the published order.",
        latency_orders,
    ),
    "F18": (
        "FAST and FAST-AT are first at the highest rate of long fat paths and recover quickly from "
        "sporadic losses; FAST-AT recovers slowly from sustained congestion.",
        fast_is_fast,
    ),
    "F19": ("BIC has by far the longest recovery latency.", bic_recovers_last),
}


@cache
def judge(quick: bool) -> tuple[Finding, ...]:
    """All of them."""
    measured = latencies(quick)
    return tuple(_judged(name, *entry, measured) for name, entry in STATEMENTS.items())


def _judged(
    name: str, text: str, judged: Callable[[Latencies], Judged], measured: Latencies
) -> Finding:
    return finding(name, text, lambda _: judged(measured), Experiments({}))


def _listing(values: Mapping[str, float]) -> str:
    return ", ".join(f"{n} {values[n]:.1f}" for n in sorted(values, key=values.__getitem__))


def _range(low: float, high: float) -> str:
    one, other = f"{low:.2f}", f"{high:.2f}"
    return one if one == other else f"{one} to {other}"


def _seconds(value: float, longest: float) -> str:
    return f"{value:.0f} s" if value < float("inf") else f"more than {longest:.0f} s"
