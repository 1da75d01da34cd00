"""Figures: what they show, with units, readable, and the same bytes every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dumbbell._errors import UsageError
from dumbbell._plots import (
    cdf_figure,
    completion_figure,
    plot_result,
    save_figure,
    time_series_figure,
)
from dumbbell._plots_data import by_name, columns, decimate, number
from dumbbell._plots_panels import COLOURS, flow_styles, time_panels
from dumbbell._report_plotly import time_figure
from synthetic_result import RATE_BPS, synthetic_result


def test_every_axis_carries_its_unit() -> None:
    result = synthetic_result(completions=20)
    labels = []
    for made in (time_series_figure(result), cdf_figure(result), completion_figure(result)):
        for ax in made.axes:
            labels += [ax.get_xlabel(), ax.get_ylabel()]
    labels = [" ".join(label.split()) for label in labels if label]
    assert {"goodput (Mbit/s)", "cwnd (segments)", "smoothed RTT (ms)"} <= set(labels)
    assert {"queueing delay (ms)", "time (s)", "transfer size (kB)"} <= set(labels)
    dimensionless = {"fraction not above"}
    assert all(label.endswith(")") for label in labels if label not in dimensionless)


def test_lines_are_the_tables_numbers() -> None:
    result = synthetic_result(shares=(0.3, 0.7))
    goodput = time_series_figure(result).axes[0]
    lines = {line.get_label(): line for line in goodput.get_lines()}
    assert set(lines) == {"cubic-1", "bbr-2", "capacity"}
    table = result.table("flow_series").to_pydict()
    bbr = [g / 1e6 for g, f in zip(table["goodput_bps"], table["flow"], strict=True) if "bbr" in f]
    assert lines["bbr-2"].get_ydata() == pytest.approx(bbr)
    assert lines["capacity"].get_ydata() == pytest.approx(RATE_BPS / 1e6)
    assert lines["cubic-1"].get_color() != lines["bbr-2"].get_color()
    assert lines["cubic-1"].get_linestyle() != lines["bbr-2"].get_linestyle()


def test_data_that_a_repair_releases_at_once_does_not_flatten_the_rest() -> None:
    """No flow is faster than the link; in-order delivery may hand over seconds of data at once."""
    burst = time_panels(synthetic_result(shares=(0.3, 10.0)))[0]
    assert burst.top == 1.25 * RATE_BPS / 1e6
    assert "goes beyond the axis" in burst.reading
    drawn = time_series_figure(synthetic_result(shares=(0.3, 10.0))).axes[0]
    assert drawn.get_ylim() == (0, burst.top)
    figure = time_figure([burst], 0.0, 900)
    assert figure["layout"]["yaxis"]["range"] == [0, burst.top]
    assert time_panels(synthetic_result(shares=(0.3, 1.4)))[0].top is None


def test_the_legend_is_outside_the_axes_and_names_each_line_once() -> None:
    made = time_series_figure(synthetic_result())
    made.draw_without_rendering()
    (legend,) = made.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names) == sorted(set(names))
    assert {"cubic-1", "bbr-2", "queue bottleneck", "probe ping", "warm-up"} <= set(names)
    box = legend.get_window_extent()
    assert not any(box.overlaps(ax.get_window_extent()) for ax in made.axes)


def test_text_stays_inside_the_figure() -> None:
    made = time_series_figure(synthetic_result())
    made.draw_without_rendering()
    page = made.bbox
    for ax in made.axes:
        for text in (ax.xaxis.label, ax.yaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= page.x0
            assert box.y0 >= page.y0
            assert box.x1 <= page.x1


def test_rates_are_in_the_unit_that_fits() -> None:
    for scale, unit in ((1.0, "Mbit/s"), (1e-3, "kbit/s"), (100.0, "Gbit/s")):
        result = synthetic_result()
        table = result.table("flow_series")
        index = table.column_names.index("goodput_bps")
        scaled = table.column(index).to_numpy() * scale
        result._tables["flow_series"] = table.set_column(index, "goodput_bps", [scaled])
        del result._tables["link_series"]
        assert time_panels(result)[0].y_label == f"goodput ({unit})"


def test_many_flows_are_told_apart_by_controller() -> None:
    ccs = ["cubic"] * 10 + ["bbr"] * 10
    result = synthetic_result(ccs=ccs, shares=[0.05] * 20)
    styles = flow_styles(result.summary)
    assert {style.label for style in styles.values()} == {"cubic (10 flows)", "bbr (10 flows)"}
    assert {style.colour for style in styles.values()} == set(COLOURS[:2])
    names = [text.get_text() for text in time_series_figure(result).legends[0].get_texts()]
    assert names.count("cubic (10 flows)") == 1


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_bytes_are_the_same_every_time(tmp_path: Path, kind: str) -> None:
    paths = []
    for name in ("a", "b"):
        paths.append(plot_result(synthetic_result(completions=5), tmp_path / name, formats=[kind]))
    assert [path.name for path in paths[0]] == [f"{n}.{kind}" for n in _ALL]
    for first, second in zip(*paths, strict=True):
        assert first.read_bytes() == second.read_bytes()
        assert b"2026" not in first.read_bytes() or kind == "png"


_ALL = ("time-series", "cdf", "completions")


def test_only_what_was_recorded_is_drawn(tmp_path: Path) -> None:
    result = synthetic_result()
    for name in ("queue_delay_cdf", "flow_rtt_cdf", "probe_samples"):
        del result._tables[name]
    assert [path.name for path in plot_result(result, tmp_path)] == ["time-series.png"]
    assert len(time_series_figure(result).axes) == 4
    result._tables.clear()
    with pytest.raises(UsageError, match="nothing to draw"):
        plot_result(result, tmp_path)
    with pytest.raises(UsageError, match="nothing over time"):
        time_series_figure(result)


def test_unknown_format_is_one_line(tmp_path: Path) -> None:
    made = time_series_figure(synthetic_result())
    with pytest.raises(UsageError, match='did you mean "png"'):
        save_figure(made, tmp_path / "figure.pngg")


def test_columns_and_groups_follow_the_given_order() -> None:
    table = columns(synthetic_result(), "flow_series")
    assert [name for name, _ in by_name(table, "flow", ["bbr-2", "cubic-1"])] == [
        "bbr-2",
        "cubic-1",
    ]
    assert [name for name, _ in by_name(table, "flow")] == ["cubic-1", "bbr-2"]
    _, first = next(iter(by_name(table, "flow")))
    assert first["t"].size == 300
    assert columns(synthetic_result(), "completions") == {}


@given(
    arrays(np.float64, st.integers(1, 3000), elements=st.floats(-1e6, 1e6) | st.just(np.nan)),
    st.integers(1, 50),
)
def test_decimation_keeps_ends_extremes_and_order(y: np.ndarray[Any, Any], pixels: int) -> None:
    x = np.arange(y.size, dtype=np.float64)
    kept_x, kept_y = decimate(x, y, pixels)
    assert kept_x.size == kept_y.size <= max(4 * pixels, 2 * pixels + 2)
    assert np.all(np.diff(kept_x) > 0)
    assert kept_x[0] == 0
    assert kept_x[-1] == y.size - 1
    assert np.array_equal(kept_y, y[kept_x.astype(int)], equal_nan=True)
    if np.isfinite(y).any():
        assert np.nanmin(kept_y) == np.nanmin(y)
        assert np.nanmax(kept_y) == np.nanmax(y)


def test_decimation_keeps_a_spike_in_each_pixel_and_gaps() -> None:
    y = np.zeros(10_000)
    y[3333] = 1.0
    y[6000:7000] = np.nan
    x, kept = decimate(np.arange(10_000.0), y, 100)
    assert kept.max(initial=0.0, where=np.isfinite(kept)) == 1.0
    assert np.isnan(kept[(x > 6100) & (x < 6900)]).all()
    assert ((x > 6100) & (x < 6900)).any()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (0, "0"),
        (0.01234, "0.0123"),
        (9.876, "9.88"),
        (98.76, "98.8"),
        (99.97, "100"),
        (0.9996, "1.00"),
        (1234.5, "1\u2009234"),
        (-2.5, "-2.50"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text
