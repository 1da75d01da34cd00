"""What commands print: JSON for machines, tables for people, progress on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dumbbell._errors import printable
from dumbbell._units import format_bytes, format_rate, format_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dumbbell._compare import CellProgress, Comparison
    from dumbbell._run import Progress

_NARROWEST = 140


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def warn(text: str) -> None:
    """One line on stderr, for what does not keep a command from its work."""
    print(f"dumbbell: {printable(text)}", file=sys.stderr)


def console() -> Console:
    """Where tables go; wide enough for a whole row where the width is not that of a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _NARROWEST
    return Console(width=width, highlight=False)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table. A column whose name begins with "<" holds names, with "<<" text that may be folded;
    all others hold numbers."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    result = Table(
        title=escape(f"\n{title}") if title else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        # Many columns have to fit into 80 characters.
        padding=(0, 1 if len(columns) < 10 else 0),
        collapse_padding=True,
    )
    lines = max(name.count("\n") for name in columns)
    for name in columns:
        result.add_column(
            "\n" * (lines - name.count("\n")) + escape(name.lstrip("<")),
            justify="left" if name.startswith("<") else "right",
            overflow="fold",
            no_wrap=not name.startswith("<<"),
        )
    for row in rows:
        result.add_row(*(escape(cell) for cell in row))
    return result


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar for one run, on stderr and only if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _bar("{task.fields[events]:,} events") as (update, _):

        def report(fraction: float, events: int) -> bool:
            update(completed=fraction, total=1.0, events=events)
            return True

        yield report


@contextmanager
def progress_count(*, quiet: bool) -> Iterator[CellProgress | None]:
    """A bar for many runs, on stderr and only if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _bar("{task.completed:.0f} of {task.total:.0f} runs") as (update, _):
        yield lambda done, planned: update(completed=done, total=planned)


@contextmanager
def _bar(text: str) -> Iterator[tuple[Callable[..., None], object]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn(text), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("run", total=1.0, events=0)
        yield (lambda **fields: bar.update(task, **fields)), bar


def print_summary(summary: Mapping[str, Any]) -> None:
    """The summary of a run as tables."""
    out = console()
    scenario = summary["scenario"]
    totals = summary["totals"]
    title = scenario.get("title") or "scenario"
    window = f"{scenario.get('warmup', '0s')} to {scenario['duration']}"
    out.print(f"{title}: seed {summary['seed']}, summary over {window}", markup=False)
    if "responses" in summary:
        _print_responses(summary)
    else:
        _print_flows_and_links(summary)
    if summary["probes"]:
        out.print(
            table(
                "Probes",
                ["<probe", "mean ms", "p50", "p95", "p99", "lost"],
                [
                    [
                        probe["id"],
                        *(_ms(probe["rtt_ms"][q]) for q in ("mean", "p50", "p95", "p99")),
                        str(probe["lost"]),
                    ]
                    for probe in summary["probes"]
                ],
            )
        )
    out.print(
        f"\nJain {_number(totals['jain'], 3)}, {totals['packets']:,} packets, "
        f"{totals['events']:,} events; {totals['simulated_s']:g} s simulated in "
        f"{totals['wall_s']:.2f} s, {totals['peak_rss_bytes'] / 2**20:.0f} MiB"
    )


def _print_responses(summary: Mapping[str, Any]) -> None:
    """What a [mesonet] is measured by; its hundreds of sources and routers would say less."""
    from dumbbell.mesonet._parameters import Mesonet
    from dumbbell.mesonet._responses import catalogue

    values = summary["responses"]
    console().print(
        table(
            "Responses",
            ["<response", "value", "<unit", "<meaning"],
            [
                [one.name, _number(values[one.name], 4), one.unit, one.meaning]
                for one in catalogue(Mesonet.model_validate(summary["scenario"]["mesonet"]))
                if values.get(one.name) is not None
            ],
        )
    )


def _print_flows_and_links(summary: Mapping[str, Any]) -> None:
    out = console()
    out.print(
        table(
            "Flows",
            ["<flow", "<cc", "goodput\nMbit/s", "RTT p50\nms", "RTT p95\nms", "loss\n%", "marks\n%",
             "retrans-\nmits", "done\ns"],
            [
                [
                    flow["id"], flow["cc"], _mbit(flow["goodput_bps"]), _ms(flow["rtt_ms"]["p50"]),
                    _ms(flow["rtt_ms"]["p95"]), _percent(flow["loss_ratio"]),
                    _percent(flow["mark_ratio"]), str(flow["retransmits"]),
                    _number(flow["completion_s"], 3),
                ]
                for flow in summary["flows"]
            ],
        )
    )  # fmt: skip
    media = [(flow["id"], flow["media"]) for flow in summary["flows"] if flow.get("media")]
    if media:
        out.print(
            table(
                "Media",
                [
                    "<flow",
                    "frames",
                    "lost",
                    "rate\nMbit/s",
                    "delay p50\nms",
                    "p95",
                    "p99",
                    "freezes",
                    "frozen\ns",
                ],
                [
                    [
                        flow,
                        str(own["frames"]),
                        str(own["lost_frames"]),
                        _mbit(own["media_rate_bps"]),
                        *(_ms(own["frame_delay_ms"][q]) for q in ("p50", "p95", "p99")),
                        str(own["freezes"]),
                        _number(own["freeze_s"], 2),
                    ]
                    for flow, own in media
                ],
            )
        )
    out.print(
        table(
            "Links",
            ["<link", "used\n%", "queue\nmean ms", "p50", "p95", "p99", "max", "packets", "drops",
             "marks"],
            [
                [
                    link["id"], _percent(link["utilisation"]),
                    *(_ms(link["queue_delay_ms"][q]) for q in ("mean", "p50", "p95", "p99", "max")),
                    str(link["packets"]), str(link["drops"]), str(link["marks"]),
                ]
                for link in summary["links"]
            ],
        )
    )  # fmt: skip


def print_comparison(comparison: Comparison) -> None:
    """One row for each controller at each point of the grid."""
    groups = comparison.groups()
    labels = list(dict.fromkeys(name for cell in comparison.cells for name in cell.labels))
    # A column that says the same in each row as the flow's own controller is not needed.
    shown = [name for name in labels if any(str(g[name]) != g["flow_cc"] for g in groups)]
    columns: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        *((f"<{name}", lambda g, name=name: str(g[name])) for name in shown),
        ("<flows", lambda g: g["flow_cc"] + (f" x{g['flows']}" if g["flows"] > 1 else "")),
        ("goodput\nMbit/s", lambda g: _mbit(g["goodput_bps"])),
        ("share\n%", lambda g: _number(100 * g["share"], 0)),
        ("RTT p95\nms", lambda g: _ms(g["rtt_p95_ms"])),
        ("loss\n%", lambda g: _percent(g["loss_ratio"])),
        ("used\n%", lambda g: _percent(g["utilisation"])),
        ("queue\nms", lambda g: _ms(g["queue_delay_mean_ms"])),
        ("p95\nms", lambda g: _ms(g["queue_delay_p95_ms"])),
    ]
    if any(group["frame_delay_p95_ms"] is not None for group in groups):
        columns.insert(-3, ("frame\np95 ms", lambda g: _ms(g["frame_delay_p95_ms"])))
        columns.insert(-3, ("frozen\ns", lambda g: _number(g["freeze_s"], 2)))
    if any(group["mark_ratio"] for group in groups):
        columns.insert(-3, ("marks\n%", lambda g: _percent(g["mark_ratio"])))
    rows = [[cell(group) for _, cell in columns] for group in groups]
    console().print(table("", [name for name, _ in columns], rows))


def print_config(scenario: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """What the engine would run."""
    from dumbbell.mesonet._network import link_of

    out = console()
    duration, warmup = format_time(config["duration_ns"]), format_time(config["warmup_ns"])
    out.print(
        f"{scenario.get('title') or 'scenario'}: {duration}, warm-up {warmup}, "
        f"seed {config['seed']}",
        markup=False,
    )
    out.print(
        table(
            "Links",
            ["<link", "<capacity", "delay", "<<queue", "overhead"],
            [
                [
                    link["id"], _capacity(link["capacity"]), format_time(link["delay_ns"]),
                    _queue(link), format_bytes(link["framing"].get("overhead", 0)),
                ]
                for link in config["links"]
            ],
        )
    )  # fmt: skip
    names = [link["id"] for link in config["links"]]
    out.print(
        table(
            "Flows",
            ["<flow", "<<sends", "<traffic", "start", "stop", "delay\nthere", "\nback", "<<route"],
            [
                [
                    flow["id"], _transport(flow["transport"]), _traffic(flow["traffic"]),
                    format_time(flow["start_ns"]), format_time(flow["stop_ns"]),
                    format_time(flow.get("delay_ns", 0)),
                    format_time(flow.get("reverse_delay_ns", 0)),
                    " ".join(names[link_of(hop)] for hop in flow["route"]),
                ]
                for flow in config["flows"]
            ],
        )
    )  # fmt: skip
    for coupling in config.get("coupling", ()):
        named = _named({"kind": coupling["kind"], "params": coupling["options"]})
        ids = ", ".join(config["flows"][member["flow"]]["id"] for member in coupling["members"])
        out.print(f"coupling {coupling['id']}: {named}: {ids}", markup=False)
    for probe in config["probes"]:
        out.print(f"{probe['id']}: every {format_time(probe['interval_ns'])}", markup=False)


def _capacity(capacity: Mapping[str, Any]) -> str:
    match capacity["kind"]:
        case "constant":
            return format_rate(capacity["bps"])
        case "trace":
            ms = capacity["ms"]
            mean = len(ms) * capacity["mtu"] * 8 / ms[-1] / 1000
            return f"trace, {len(ms)} opportunities, mean {mean:.3g} Mbit/s"
        case _:
            return "unlimited"


def _queue(link: Mapping[str, Any]) -> str:
    if link["capacity"]["kind"] == "unlimited":
        return "-"
    return _named(link["queue"])


def _traffic(traffic: Mapping[str, Any]) -> str:
    return f"{traffic['count']} users" if traffic["kind"] == "users" else str(traffic["kind"])


def _transport(transport: Mapping[str, Any]) -> str:
    match transport:
        case {"kind": "udp"}:
            return "udp"
        case {"kind": "other", "transport": name, "options": options, **rest}:
            own = _named({"kind": name, "params": options})
            return f"{own}, {_named(rest['cc'])}" if "cc" in rest else own
        case _:
            return _named(transport["cc"])


def _named(item: Mapping[str, Any]) -> str:
    """Kind and parameters as they are written."""
    from dumbbell._registry import builtin

    registry = builtin()
    kinds = {**registry.all_controllers, **registry.queues}
    known = kinds.get(item["kind"])
    parts = [item["kind"]]
    for name, value in item["params"].items():
        param = known.param(name) if known else None
        parts.append(f"{name}={param.show(value) if param else value}")
    return " ".join(parts)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _mbit(bps: float | None) -> str:
    return "-" if bps is None else f"{bps / 1e6:.3f}" if bps < 1e6 else f"{bps / 1e6:.2f}"


def _ms(value: float | None) -> str:
    return _number(value, 1)


def _percent(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio * 100:.2f}" if 0 < ratio < 0.001 else f"{ratio * 100:.1f}"
