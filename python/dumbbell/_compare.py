"""The same scenario over a grid of controllers, queues, other values and seeds."""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from dumbbell._errors import ResultError, UsageError
from dumbbell._registry import builtin
from dumbbell._results import Result
from dumbbell._run import Prepared, controller_class, execute, load_scenario, prepare
from dumbbell._scenario import Scenario
from dumbbell.media import MediaControl

ALL = "all"

# A name may end in two of what separates names: ledbat++.
_PART = re.compile(r"[^+]+(?:\+\+)?")

_BOUNDS = frozenset({"min_rate", "max_rate"})
"""What controllers for media have in common."""

CellProgress = Callable[[int, int], None]
"""Called with the number of runs done and the number of all runs."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: what it changes, under the names of the table's columns."""

    labels: dict[str, Any]
    changes: dict[str, Any]
    seed: int


@dataclass
class Comparison:
    """Results of a grid. `rows` has one dictionary for each flow of each run."""

    cells: list[Cell] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    planned: int = 0

    @property
    def complete(self) -> bool:
        """False if it was interrupted; what was done is there."""
        return len(self.results) == self.planned

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row a flow: the cell's labels, seed, flow, cc, goodput_bps, share, rtt_p50_ms,
        rtt_p95_ms, loss_ratio, mark_ratio, retransmits, completion_s; of media frame_delay_p95_ms,
        lost_frames and freeze_s (None of others); and of its run utilisation, queue_delay_mean_ms,
        queue_delay_p95_ms, jain."""
        pairs = zip(self.cells, self.results, strict=True)
        return [row for cell, result in pairs for row in _rows(cell, result)]

    @property
    def titles(self) -> list[str]:
        """What each run differs in, as one text."""
        seeds = len({cell.seed for cell in self.cells}) > 1
        return [
            " ".join([*map(str, cell.labels.values()), *([f"seed {cell.seed}"] if seeds else [])])
            for cell in self.cells
        ]

    def groups(self) -> list[dict[str, Any]]:
        """Flows with the same controller taken together (goodput and share summed, the rest
        averaged), then the mean over seeds."""
        labels = list(dict.fromkeys(name for cell in self.cells for name in cell.labels))
        grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.rows:
            key = (*(str(row.get(name)) for name in labels), row["flow_cc"])
            grouped.setdefault(key, []).append(row)
        return [_group(labels, rows) for rows in grouped.values()]

    @property
    def warnings(self) -> list[str]:
        """What probably makes a run show something else than meant, each line once, with the first
        run that it is about."""
        lines: dict[str, str] = {}
        for title, result in zip(self.titles, self.results, strict=True):
            for line in result.summary.get("warnings", ()):
                lines.setdefault(line, title)
        return [f"{title}: {line}" if title else line for line, title in lines.items()]

    def save(self, directory: str | Path) -> Path:
        """Write `comparison.json` (runs, rows) and each result to a directory of its own.

        Raises ResultError, MissingExtraError.
        """
        directory = Path(directory)
        runs = []
        for number, (cell, result) in enumerate(zip(self.cells, self.results, strict=True)):
            name = f"{number:04d}"
            result.save(directory / name)
            runs.append({"directory": name, "labels": cell.labels, "seed": cell.seed})
        try:
            directory.mkdir(parents=True, exist_ok=True)
            document = {"complete": self.complete, "runs": runs, "rows": self.rows}
            text = json.dumps(document, indent=1, default=str)
            (directory / "comparison.json").write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ResultError(f"{directory}: cannot be written: {reason}") from None
        return directory


def compare(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    *,
    cc: Sequence[str] | None = None,
    queue: Sequence[str | Mapping[str, Any]] | None = None,
    over: Mapping[str, Sequence[Any]] | None = None,
    seeds: int = 1,
    jobs: int | None = None,
    progress: CellProgress | None = None,
) -> Comparison:
    """Run a scenario over a grid, in threads, and put the results side by side.

    `cc`: a name is given to all [[flows]] that take such a controller (of TCP or, where there is no
    TCP, of plt; or media); "cubic+bbr" gives its parts to them in turn, "nada+bbr" the one to media
    and the other to TCP. "all" stands for every built-in controller that steers by anything, those
    for media where there is nothing else. Parameters of a flow whose controller changes are
    dropped, but for min_rate and max_rate of media. `queue`: a name, or a table with `kind`; a name
    that is the scenario's own keeps the parameters written there; "all" stands for every queue.
    `over`: values for dotted keys ("path.rate"). `seeds`: this many, from the scenario's own
    upwards. `jobs`: threads, default one a processor. Ctrl-C keeps the runs that are done.

    Raises ScenarioError, UsageError and what :func:`dumbbell.run` raises.
    """
    loaded = load_scenario(scenario)
    if seeds < 1:
        raise UsageError(f"seeds {seeds}: expected at least 1")
    cells = _grid(loaded, _named(loaded, cc), _all_queues(queue), over, seeds)
    # All are checked before the first runs.
    prepared = [prepare(loaded.replaced(cell.changes), seed=cell.seed) for cell in cells]
    done = _run_all(prepared, jobs or os.cpu_count() or 1, progress)
    kept = sorted(done)
    return Comparison([cells[i] for i in kept], [done[i] for i in kept], planned=len(cells))


def _named(scenario: Scenario, cc: Sequence[str] | None) -> list[str] | None:
    """The names, with "all" in full."""
    if cc is None:
        return None
    steering = [e.name for e in builtin().controllers.values() if e.signals != ("none",)]
    if {flow.transport for flow in scenario.flows}.isdisjoint(("tcp", "plt")):
        steering = list(builtin().media)
    return list(dict.fromkeys(n for name in cc for n in (steering if name == ALL else [name])))


def _all_queues(
    queue: Sequence[str | Mapping[str, Any]] | None,
) -> list[str | Mapping[str, Any]] | None:
    """The queues, with "all" in full."""
    if queue is None:
        return None
    return [n for item in queue for n in (builtin().queues if item == ALL else [item])]


def _grid(
    scenario: Scenario,
    cc: Sequence[str] | None,
    queue: Sequence[str | Mapping[str, Any]] | None,
    over: Mapping[str, Sequence[Any]] | None,
    seeds: int,
) -> list[Cell]:
    axes: list[list[tuple[dict[str, Any], dict[str, Any]]]] = []
    if cc:
        axes.append([({"cc": name}, _cc_changes(scenario, name)) for name in cc])
    if queue:
        if scenario.path is None:
            raise UsageError('queue: only a [path] has one queue; use over with a link\'s "queue"')
        axes.append([_queue_change(scenario, item) for item in queue])
    for key, values in (over or {}).items():
        if not values:
            raise UsageError(f"over {key}: expected at least one value")
        axes.append([({key: value}, {key: value}) for value in values])
    cells = []
    for combination in itertools.product(*axes):
        labels = {k: v for label, _ in combination for k, v in label.items()}
        changes = {k: v for _, change in combination for k, v in change.items()}
        first = int(changes.get("seed", scenario.seed))
        cells += [Cell(labels, changes, first + n) for n in range(seeds)]
    return cells


def _cc_changes(scenario: Scenario, name: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    parts = _PART.findall(name)
    media = [part for part in parts if _is_media(scenario, part)]
    for names in (media, [part for part in parts if part not in media]):
        if names:
            changes |= _cc_changes_of(scenario, name, names, media=names is media)
    return changes


def _cc_changes_of(
    scenario: Scenario, name: str, names: Sequence[str], *, media: bool
) -> dict[str, Any]:
    """Names of one kind to the flows that take them: media, else TCP's, else PLT's."""
    by_transport: dict[str, list[int]] = {}
    for i, flow in enumerate(scenario.flows):
        by_transport.setdefault(flow.transport, []).append(i)
    takers = ("rtp",) if media else ("tcp", "plt")
    transport = next((one for one in takers if one in by_transport), takers[0])
    flows = by_transport.get(transport, [])
    if not flows:
        raise UsageError(f'cc "{name}": the scenario has no {" or ".join(takers)} flow')
    if len(names) > len(flows):
        raise UsageError(f'cc "{name}": the scenario has only {len(flows)} {transport} [[flows]]')
    changes: dict[str, Any] = {}
    for n, i in enumerate(flows):
        new = names[n % len(names)]
        flow = scenario.flows[i]
        if new != flow.controller:
            kept = _BOUNDS if media else frozenset()
            params = {name: value for name, value in flow.params.items() if name in kept}
            changes[f"flows[{i}].params"] = params
        changes[f"flows[{i}].cc"] = new
    return changes


def _is_media(scenario: Scenario, name: str) -> bool:
    if name in builtin().media:
        return True
    found = controller_class(name, "cc", scenario)
    return found is not None and issubclass(found, MediaControl)


def _queue_change(
    scenario: Scenario, item: str | Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    assert scenario.path is not None
    own = scenario.path.queue
    if isinstance(item, str):
        table = {"kind": own.kind, **own.params} if item == own.kind else {"kind": item}
        return {"queue": item}, {"path.queue": table}
    more = " ".join(f"{key}={value}" for key, value in item.items() if key != "kind")
    return {"queue": f"{item.get('kind')} {more}".strip()}, {"path.queue": dict(item)}


def _run_all(
    prepared: Sequence[Prepared], jobs: int, progress: CellProgress | None
) -> dict[int, Result]:
    """Results by index. Ctrl-C ends the running ones and keeps those that are done."""
    stop = threading.Event()
    done: dict[int, Result] = {}
    pool = ThreadPoolExecutor(max_workers=jobs)
    futures: dict[Future[Result], int] = {}
    try:
        for i, one in enumerate(prepared):
            futures[pool.submit(execute, one, lambda *_: not stop.is_set())] = i
        pending = set(futures)
        while pending:
            # A wait without end would not notice Ctrl-C on every platform.
            finished, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            _collect(finished, futures, done)
            if progress is not None:
                progress(len(done), len(prepared))
    except KeyboardInterrupt:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        _collect((f for f in futures if not f.cancelled()), futures, done)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return done


def _collect(
    finished: Iterable[Future[Result]],
    futures: Mapping[Future[Result], int],
    done: dict[int, Result],
) -> None:
    for future in finished:
        result = future.result()
        if result.complete:
            done[futures[future]] = result


def _rows(cell: Cell, result: Result) -> list[dict[str, Any]]:
    summary = result.summary
    total = sum(flow["goodput_bps"] for flow in summary["flows"])
    link = summary["links"][0] if summary["links"] else {}
    delay = link.get("queue_delay_ms", {})
    return [
        {
            **cell.labels,
            "seed": cell.seed,
            "flow": flow["id"],
            "flow_cc": flow["cc"],
            "goodput_bps": flow["goodput_bps"],
            "share": flow["goodput_bps"] / total if total else None,
            "rtt_p50_ms": flow["rtt_ms"]["p50"],
            "rtt_p95_ms": flow["rtt_ms"]["p95"],
            "loss_ratio": flow["loss_ratio"],
            "mark_ratio": flow["mark_ratio"],
            "retransmits": flow["retransmits"],
            "completion_s": flow["completion_s"],
            "frame_delay_p95_ms": media.get("frame_delay_ms", {}).get("p95"),
            "lost_frames": media.get("lost_frames"),
            "freeze_s": media.get("freeze_s"),
            "utilisation": link.get("utilisation"),
            "queue_delay_mean_ms": delay.get("mean"),
            "queue_delay_p95_ms": delay.get("p95"),
            "jain": summary["totals"]["jain"],
        }
        for flow in summary["flows"]
        for media in [flow.get("media") or {}]
    ]


def _group(labels: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    seeds = {row["seed"] for row in rows}
    result: dict[str, Any] = {name: rows[0].get(name) for name in labels}
    result |= {"flow_cc": rows[0]["flow_cc"], "flows": len(rows) // len(seeds), "seeds": len(seeds)}
    for name in ("goodput_bps", "share"):
        result[name] = sum(row[name] or 0.0 for row in rows) / len(seeds)
    for name in (
        "rtt_p50_ms",
        "rtt_p95_ms",
        "loss_ratio",
        "mark_ratio",
        "frame_delay_p95_ms",
        "freeze_s",
        "utilisation",
        "queue_delay_mean_ms",
        "queue_delay_p95_ms",
        "jain",
    ):
        known = [row[name] for row in rows if row[name] is not None]
        result[name] = fmean(known) if known else None
    return result
