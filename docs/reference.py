"""Write the reference pages whose tables come from the code.

Sphinx runs this before each build (conf.py); `python docs/reference.py` does it by hand. The
scenario's keys come from its pydantic models, controllers and queues from the engine, what is said
of controllers from the package's own pages.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller_figures import queue as figure_queue
from pydantic import AliasChoices, BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from queue_figures import load as figure_load
from transport_figures import LOADS

from dumbbell import _pages
from dumbbell._registry import builtin
from dumbbell._scenario import Scenario
from dumbbell.mesonet._parameters import Mesonet
from dumbbell.mesonet._responses import catalogue
from dumbbell.studies import Study
from dumbbell.studies.metrics import METRICS

CONTROLLER_FIGURE = """```{{image}} ../_static/controllers/{name}.png
:alt: Window of {name} and queue over time
```

Two flows, the second 10 s after the first, at 20 Mbit/s and 40 ms behind {queue}
(`docs/controller_figures.py`)."""
QUEUE_FIGURE = """```{{image}} ../_static/queues/{name}.png
:alt: Goodput, delay and drops behind {name} over time
```

{load} (`docs/queue_figures.py`)."""


TRANSPORT_FIGURE = """```{{image}} ../_static/transports/{name}.png
:alt: Rates and queueing delay with {name} over time
```

{load} (`docs/transport_figures.py`)."""


def write_all(docs: Path) -> None:
    """Write the tables that pages include, a page for each mechanism, and the table of rules."""
    registry = builtin()
    tables = docs / "_build" / "reference"
    tables.mkdir(parents=True, exist_ok=True)
    texts = {
        tables / "scenario.md": tables_of(Scenario, 2),
        tables / "study.md": tables_of(Study, 3),
        tables / "mesonet.md": tables_of(Mesonet, 3),
        tables / "mesonet-responses.md": mesonet_responses(),
        tables / "metrics.md": metrics_table(),
        tables / "controllers.md": _pages.CONTROLLERS.overview_table(registry.controllers),
        tables / "media-controllers.md": _pages.CONTROLLERS.overview_table(registry.media),
        tables / "queues.md": _pages.QUEUES.overview_table(registry.queues),
        tables / "transports.md": _pages.TRANSPORTS.overview_table(registry.transports),
        docs / "rules.md": rules_page(),
    }
    for pages, entries in (
        (_pages.CONTROLLERS, {**registry.controllers, **registry.media}),
        (_pages.QUEUES, registry.queues),
        (_pages.TRANSPORTS, registry.transports),
    ):
        directory = docs / pages.directory.name
        directory.mkdir(exist_ok=True)
        for old in directory.glob("*.md"):
            old.unlink()
        for name, entry in entries.items():
            drawn = (docs / "_static" / directory.name / f"{name}.png").is_file()
            figure = _figure(pages.kind, name) if drawn else ""
            texts[directory / f"{name}.md"] = pages.full_page(entry, figure=figure)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def _figure(kind: str, name: str) -> str:
    if kind == "queue":
        return QUEUE_FIGURE.format(name=name, load=figure_load(name))
    if kind == "transport":
        return TRANSPORT_FIGURE.format(name=name, load=LOADS[name].text)
    return CONTROLLER_FIGURE.format(name=name, queue=figure_queue(name)[1])


def rules_page() -> str:
    """Where each rule of each controller and queue comes from, where it is, and what tests it."""
    controllers, queues, transports = _pages.CONTROLLERS, _pages.QUEUES, _pages.TRANSPORTS
    return f"""# Rules of the mechanisms

Each rule of a controller, queue or transport, the section that gives it, the code that follows it
and the test that would notice if it did not. A test checks that each file and function named here
exists.

## Controllers

{controllers.rules_table(controllers.names())}

## Queues

{queues.rules_table(queues.names())}

## Transports

{transports.rules_table(transports.names())}
"""


def tables_of(root: type[BaseModel], level: int) -> str:
    """A section for each table of a scenario or study, outermost first."""
    return "\n".join(_model_section(model, root, level) for model in _models(root))


def metrics_table() -> str:
    """The metrics of studies."""
    rows = [_row((f"`{metric.name}`", metric.summary)) for metric in METRICS.values()]
    return "\n".join(["| metric | what |", "| --- | --- |", *rows, ""])


def mesonet_responses() -> str:
    """What is measured in the two experiments of [mesonet]."""
    lines = []
    for number, span in ((1, "tp1; the same are over tp2 and tp3"), (2, "the second half")):
        lines += [f"### Responses of experiment {number}, over {span}", ""]
        lines += ["| response | meaning | unit |", "| --- | --- | --- |"]
        for one in catalogue(Mesonet(experiment=number)):
            if not one.name.startswith(("tp2", "tp3")):
                lines.append(_row((f"`{one.name}`", one.meaning, one.unit)))
        lines.append("")
    return "\n".join(lines)


def _models(root: type[BaseModel]) -> list[type[BaseModel]]:
    """A model and those in it; [mesonet] has a page of its own."""
    found = [root]
    for model in found:
        if model is Mesonet and model is not root:
            continue
        for field in model.model_fields.values():
            found += [m for m in _models_in(field.annotation) if m not in found]
    return found


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def _model_section(model: type[BaseModel], root: type[BaseModel], level: int) -> str:
    lines = [f"{'#' * level} {_title(model)}", ""]
    if model is not root:
        lines += [" ".join(inspect.cleandoc(model.__doc__ or "").split()), ""]
    if model is Mesonet and model is not root:
        return "\n".join([*lines, "Its keys are on [its own page](mesonet.md).", ""])
    if fields := {n: f for n, f in model.model_fields.items() if not _is_tag(n, f)}:
        schema = model.model_json_schema(by_alias=True)["properties"]
        lines += ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        for name, field in fields.items():
            keys = [field.alias or name]
            if isinstance(field.validation_alias, AliasChoices):
                keys = [str(choice) for choice in field.validation_alias.choices]
            value = _value(schema[keys[0]], list(_models_in(field.annotation)))
            cell = ", ".join(f"`{key}`" for key in keys)
            lines.append(_row((cell, value, _default(field), field.description or "")))
    return "\n".join([*lines, ""])


def _is_tag(name: str, field: FieldInfo) -> bool:
    """Whether a field only tells which table this is."""
    return name == "kind" and len(typing.get_args(field.annotation)) == 1


_TITLES = {
    "Scenario": "Top level",
    "Study": "Top level",
    "Factor": "`[factors.NAME]`",
    "PlackettBurmanDesign": "Plackett-Burman design",
    "SobolDesign": "Sobol' design",
    "OneAtATimeDesign": "One at a time",
    "Path": "`[path]`",
    "Topology": "`[topology]`",
    "TopologyLink": "`[[topology.links]]`",
    "Reverse": "`[path.reverse]`",
    "PathChange": "`[[path.changes]]`",
    "LinkChange": "`[[topology.links.changes]]`",
    "Flow": "`[[flows]]`",
    "Probe": "`[[probes]]`",
    "Overhead": "`overhead`",
    "Queue": "`queue`",
    "Mesonet": "`[mesonet]`",
    "LargerFiles": "`larger_files`",
    "Jumbo": "`jumbo`",
    "Speeds": "`speeds`",
    "Assumptions": "`[mesonet.assumptions]`",
    "PeriodOfRun": "`[[mesonet.periods]]`",
    "GraphMl": "GraphML",
    "Users": "Users",
    "UserRecord": "`[users]`",
    "Period": "`[[users.periods]]`",
    "File": "`files`",
    "Destination": "`to`",
    "StartGroup": "`starts`",
    "Jitter": "`jitter`",
    "Reorder": "`reorder`",
}


def _title(model: type[BaseModel]) -> str:
    name = model.__name__
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    title = _TITLES.get(name, words)
    if "kind" in model.model_fields and _is_tag("kind", model.model_fields["kind"]):
        kind = typing.get_args(model.model_fields["kind"].annotation)[0]
        title += f': `kind = "{kind}"`'
    return title


def _value(schema: dict[str, Any], models: list[type[BaseModel]]) -> str:
    if models:
        return "see " + ", ".join(_title(model).partition(":")[0] for model in models)
    if "anyOf" in schema:
        schema = next(option for option in schema["anyOf"] if option.get("type") != "null")
    if "examples" in schema:
        return f'as `"{schema["examples"][0]}"`'
    if "enum" in schema:
        return ", ".join(f'`"{choice}"`' for choice in schema["enum"])
    names = {"integer": "whole number", "boolean": "true or false", "string": "text"}
    names |= {"array": "list", "number": "number"}
    return names.get(schema.get("type", ""), "table")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in (None, (), "", {}):
        return ""
    if isinstance(value, BaseModel):
        return f"`{json.dumps(value.model_dump(mode='json'))}`"
    if field.metadata:
        annotated: Any = typing.Annotated[field.annotation, *field.metadata]
        value = TypeAdapter(annotated).dump_python(value, mode="json")
    return f"`{json.dumps(value)}`"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |"


if __name__ == "__main__":
    write_all(Path(__file__).parent)
