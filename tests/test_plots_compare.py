"""Comparisons: cells are what differs, and figures hold their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dumbbell._errors import UsageError
from dumbbell._plots_compare import METRICS, compare_figure, compare_rows, grid, matrix, metrics_of
from synthetic_result import SyntheticResult, synthetic_result

DELAYS = {"fifo": 90.0, "codel": 8.0, "fq_codel": 5.0, "pie": 22.0}
CUBIC_SHARES = {"cubic": 0.5, "reno": 0.6, "bbr": 0.2}


def grid_results(seeds: int = 1) -> list[SyntheticResult]:
    """CUBIC against three controllers behind four queues: 12 cells."""
    return [
        synthetic_result(
            ccs=("cubic", cc),
            shares=(share, 1 - share) if queue != "fq_codel" else (0.5, 0.5),
            queue=queue,
            delay_ms=delay,
            seed=seed,
        )
        for cc, share in CUBIC_SHARES.items()
        for queue, delay in DELAYS.items()
        for seed in range(1, seeds + 1)
    ]


def test_factors_are_what_differs() -> None:
    rows = compare_rows(grid_results())
    assert len(rows) == 12
    assert rows[0].factors == {"cc": "cubic", "queue": "fifo"}
    assert rows[-1].factors == {"cc": "cubic+bbr", "queue": "pie"}
    assert grid(rows) == ("cc", ["cubic", "cubic+reno", "cubic+bbr"], "queue", list(DELAYS))


def test_seeds_share_a_cell_and_are_averaged() -> None:
    results = grid_results(seeds=2)
    results[1]._summary["links"][0]["utilisation"] = 0.90
    rows = compare_rows(results)
    assert len(rows) == 12
    assert rows[0].results == (0, 1)
    assert rows[0].metrics["utilisation_percent"] == pytest.approx((98 + 90) / 2)


def test_a_key_that_follows_another_is_no_factor() -> None:
    results = grid_results()
    for result in results:
        queue = result._summary["scenario"]["path"]["queue"]
        if queue["kind"] == "codel":
            queue["target"] = "5ms"
    assert list(compare_rows(results)[0].factors) == ["cc", "queue"]


def test_given_labels_are_the_factors() -> None:
    results = grid_results()[:2]
    rows = compare_rows(results, [{"path.rate": 1}, {"path.rate": 2}])
    assert [row.factors for row in rows] == [{"path.rate": "1"}, {"path.rate": "2"}]
    with pytest.raises(UsageError, match="1 labels for 2 results"):
        compare_rows(results, [{"a": 1}])


def test_metrics_and_shares_are_those_of_the_summary() -> None:
    results = grid_results()
    rows = compare_rows(results)
    for row, result in zip(rows, results, strict=True):
        link = result.summary["links"][0]
        assert row.metrics["queue_delay_p95_ms"] == link["queue_delay_ms"]["p95"]
        assert row.metrics["utilisation_percent"] == pytest.approx(98.0)
        assert row.metrics["loss_percent"] == pytest.approx(100 * 30 / (123456 + 30))
        assert sum(row.shares.values()) == pytest.approx(1.0)
    assert rows[8].shares == pytest.approx({"cubic": 0.2, "bbr": 0.8})
    values = matrix(rows, "queue_delay_p95_ms")
    assert values.shape == (3, 4)
    assert values[2, 0] == rows[8].metrics["queue_delay_p95_ms"]
    assert "utilisation_percent" not in [metric.key for metric in metrics_of(rows)]


def test_colours_run_over_a_span_that_matters() -> None:
    delay, utilisation, jain = METRICS[1:4]
    assert utilisation.colour_range([96.0, 100.0]) == (80.0, 100.0, False)
    assert utilisation.colour_range([50.0, 100.0]) == (50.0, 100.0, False)
    assert jain.colour_range([0.98, 1.0]) == (0.8, 1.0, False)
    assert delay.colour_range([3.0, 4.0]) == (3.0, 8.0, False)
    assert delay.colour_range([3.0, 90.0, float("nan")]) == (3.0, 90.0, True)


def test_heat_map_and_bars_are_written(tmp_path: Path) -> None:
    rows = compare_rows(grid_results())
    svg = compare_figure(rows, tmp_path / "heat.svg").read_text()
    again = compare_figure(rows, tmp_path / "again.svg").read_text()
    assert svg == again
    assert "p95 queueing delay (ms)" in svg
    assert "fq_codel" in svg
    one_factor = compare_rows(
        [synthetic_result(queue=queue, delay_ms=delay) for queue, delay in DELAYS.items()]
    )
    assert grid(one_factor) is None
    assert (
        "p95 queueing delay (ms)" in compare_figure(one_factor, tmp_path / "bars.svg").read_text()
    )


def test_an_incomplete_grid_leaves_a_hole(tmp_path: Path) -> None:
    rows = compare_rows(grid_results()[:-1])
    assert np.isnan(matrix(rows, "jain")[2, 3])
    assert compare_figure(rows, tmp_path / "hole.png").exists()


def test_nothing_to_compare_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        compare_figure(compare_rows([synthetic_result()]), tmp_path / "none.png")
