"""Synthetic traces: rates, variability and outages as the models and the measured traces state
them.
"""

from __future__ import annotations

import numpy as np
import pytest

from dumbbell._errors import UsageError
from dumbbell._mahimahi import rate_series, statistics
from dumbbell._traces import GENERATORS, blockage_db, generate


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_same_arguments_give_the_same_trace_as_long_as_asked(kind: str) -> None:
    first = generate(kind, seed=7, duration_s=10.0)
    assert np.array_equal(
        first.opportunities_ms, generate(kind, seed=7, duration_s=10.0).opportunities_ms
    )
    assert first.period_ms == 10_000


@pytest.mark.parametrize("kind", ["sprout", "cellular-3g", "cellular-4g", "cellular-5g", "mmwave"])
def test_another_seed_gives_another_trace(kind: str) -> None:
    first, second = (generate(kind, seed=seed, duration_s=10.0).opportunities_ms for seed in (1, 2))
    assert not np.array_equal(first, second)


def test_constant_carries_its_rate() -> None:
    assert generate("constant", rate_bps=12e6, duration_s=10.0).opportunities_ms.tolist() == list(
        range(1, 10_001)
    )


def test_step_and_square_change_when_told() -> None:
    _, rates = rate_series(
        generate("step", rate_bps=10e6, step_bps=100e6, at_s=4.0, duration_s=10.0), 1000
    )
    assert rates[:4] == pytest.approx(10e6, rel=0.01)
    assert rates[4:] == pytest.approx(100e6, rel=0.01)
    square = generate(
        "square", high_bps=50e6, low_bps=10e6, period_s=4.0, duty=0.25, duration_s=8.0
    )
    assert rate_series(square, 1000)[1] == pytest.approx([50e6, 10e6, 10e6, 10e6] * 2, rel=0.01)


def test_sprout_varies_like_measured_cellular_links() -> None:
    # CoV of the 1-s rate 0.4-0.9 and outages above 0.5 s, as in the Saturator traces (NSDI 2013).
    found = [statistics(generate("sprout", seed=seed, duration_s=300.0)) for seed in range(10)]
    variation = [s.sd_bps / s.mean_bps for s in found]
    assert 0.4 <= np.median(variation) <= 0.9
    assert min(s.longest_gap_ms for s in found) > 500
    assert max(rate_series(generate("sprout", seed=1, duration_s=60.0), 1000)[1]) < 1.1 * 12e6


def test_layers_have_the_calibrated_mean_and_variation() -> None:
    found = [statistics(generate("cellular-5g", seed=seed, duration_s=120.0)) for seed in range(8)]
    assert np.mean([s.mean_bps for s in found]) == pytest.approx(580e6, rel=0.1)
    assert np.mean([s.sd_bps / s.mean_bps for s in found]) == pytest.approx(1.3, rel=0.15)
    lte = [
        statistics(generate("cellular-4g", seed=seed, duration_s=120.0)).mean_bps
        for seed in range(16)
    ]
    assert np.mean(lte) == pytest.approx(39e6, rel=0.1)


def test_blockage_has_the_published_depth_and_duration() -> None:
    # MacCartney et al. 2017, 7 degree beam: mean depth 15.8 dB, about 0.28 s below -5 dB.
    loss = blockage_db(np.random.Generator(np.random.PCG64(1)), 400_000, 0.21)
    edges = np.flatnonzero(np.diff((loss > 5.0).astype(int)))
    durations = (edges[1::2] - edges[: edges.size // 2 * 2 : 2]) * 0.005
    assert durations.size > 200
    assert durations.mean() == pytest.approx(0.28, abs=0.04)
    depths = [loss[a:b].max() for a, b in zip(edges[::2] + 1, edges[1::2] + 1, strict=False)]
    assert np.mean(depths) == pytest.approx(15.8, abs=1.0)


def test_blockage_lowers_an_mmwave_link_to_a_fraction() -> None:
    _, rates = rate_series(generate("mmwave", seed=2, duration_s=60.0), 100)
    top = 0.75 * 400e6 * 6.0
    assert rates.max() <= top * 1.01
    assert rates.min() < 0.6 * np.median(rates)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"kind": "sprot"}, 'did you mean "sprout"?'),
        ({"kind": "sprout", "scal": 2.0}, 'unknown parameter "scal"; did you mean "scale"?'),
        ({"kind": "sprout", "scale": 0.0}, "expected a positive number"),
        ({"kind": "sprout", "duration_s": -1.0}, "expected above 0"),
        ({"kind": "sprout", "duration_s": float("nan")}, "expected above 0"),
        ({"kind": "sprout", "seed": -1}, "expected a non-negative integer"),
        ({"kind": "square", "duty": 1.5}, "duty 1.5"),
        ({"kind": "step", "at_s": 100.0}, "inside the 60 s"),
        ({"kind": "constant", "rate_bps": 1e15}, "expected at most 50000000"),
        ({"kind": "constant", "rate_bps": "fast"}, 'rate_bps = "fast": expected a number'),
        ({"kind": "constant", "rate_bps": float("nan")}, "expected a number"),
        ({"kind": "cellular-3g", "scale": 1.0}, "it has no parameters"),
        ({"kind": "constant", "rate_bps": 0.0}, "no packet of 1500 bytes"),
        ({"kind": "constant", "rate_bps": -1.0}, "not negative"),
    ],
)
def test_wrong_arguments_give_one_line(arguments: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        generate(**arguments)  # type: ignore[arg-type]
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
