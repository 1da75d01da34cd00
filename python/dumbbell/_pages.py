"""Documentation pages of controllers, queues and transports: one file for each in `controllers/`,
`queues/` or `transports/`, with the parts that come from the registry put in.

A page has the sections of `HEADINGS`. Its rules are a table of rule, source, code and test; code
and test name files of the source tree and a symbol in them: `path::symbol`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dumbbell._registry import Entry, Kind, Param

HEADINGS = ("Idea", "State", "Rules", "Weaknesses")
RULE_COLUMNS = ("rule", "source", "code", "test")
_REFERENCE = re.compile(r"`([\w./+-]+)::(\w+)`")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a mechanism: where it comes from, where it is in the code, what tests it."""

    rule: str
    source: str
    code: str
    test: str

    def references(self) -> list[tuple[str, str]]:
        """Files and symbols that `code` and `test` name."""
        return _REFERENCE.findall(f"{self.code} {self.test}")


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one kind of mechanism, "controller", "queue" or "transport", in `directory`."""

    kind: Kind
    directory: Path

    def names(self) -> list[str]:
        """What has a page."""
        return sorted(path.stem for path in self.directory.glob("*.md"))

    def sections(self, name: str) -> dict[str, str]:
        """Text under each heading of a page, empty if there is no page."""
        path = self.directory / f"{name}.md"
        if not path.is_file():
            return {}
        parts = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.M)
        return {
            title.strip(): text.strip()
            for title, text in zip(parts[1::2], parts[2::2], strict=True)
        }

    def rules(self, name: str) -> list[Rule]:
        """The rows of a page's table of rules. Raises ValueError if the columns are others."""
        rules = []
        lines = [
            line for line in self.sections(name).get("Rules", "").splitlines() if line[:1] == "|"
        ]
        for number, line in enumerate(lines):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
            if len(cells) != len(RULE_COLUMNS) or (number == 0 and tuple(cells) != RULE_COLUMNS):
                raise ValueError(
                    f"{name}: expected a table of {', '.join(RULE_COLUMNS)}, not: {line[:60]}"
                )
            if number > 1:
                rules.append(Rule(*cells))
        return rules

    def full_page(self, entry: Entry, *, figure: str = "", rules: str | None = None) -> str:
        """A page in Markdown: `figure` below the idea, `rules` in place of its table."""
        sections = self.sections(entry.name)
        lines = [f"# {entry.name}", "", f"{entry.summary[:1].upper()}{entry.summary[1:]}.", ""]
        lines += [f"Source: {entry.source}.", ""]
        if self.kind == "controller":
            lines[-2] += f" Signals: {', '.join(entry.signals) or 'not told'}."
        elif self.kind == "transport":
            lines[-2] += f" Controllers: {entry.controllers}."
        for heading in HEADINGS:
            if heading == "Weaknesses":
                title = "Options" if self.kind == "transport" else "Parameters"
                lines += [f"## {title}", "", parameter_table(entry.params), ""]
                if entry.classes:
                    lines += ["Of each class:", "", parameter_table(entry.classes), ""]
            if heading not in sections:
                continue
            text = sections[heading]
            if heading == "Rules" and rules is not None:
                text = rules
            lines += [f"## {heading}", "", text, ""]
            if heading == "Idea" and figure:
                lines += [figure, ""]
        return "\n".join(lines)

    def short_rules(self, name: str) -> str:
        """The table of rules without code and tests, for narrow places."""
        rows = ((r.rule, r.source) for r in self.rules(name))
        return markdown_table(("rule", "source"), rows, escape=False)

    def rules_table(self, names: Iterable[str]) -> str:
        """One table of the rules of all these, each row with its name."""
        rows = ((n, r.rule, r.source, r.code, r.test) for n in names for r in self.rules(n))
        return markdown_table((self.kind, *RULE_COLUMNS), rows, escape=False)

    def overview_table(self, entries: Mapping[str, Entry]) -> str:
        """Name (a link to its page), what it is, source, and signals of controllers."""
        have = set(self.names())
        signals = self.kind == "controller"
        rows = (
            (
                f"[{name}]({self.directory.name}/{name}.md)" if name in have else name,
                entry.summary,
                entry.source,
                *([", ".join(entry.signals)] if signals else []),
            )
            for name, entry in entries.items()
        )
        columns = ("name", "what", "source", *(["signals"] if signals else []))
        return markdown_table(columns, rows)


CONTROLLERS = Pages("controller", Path(__file__).parent / "controllers")
QUEUES = Pages("queue", Path(__file__).parent / "queues")
TRANSPORTS = Pages("transport", Path(__file__).parent / "transports")


def parameter_table(params: Iterable[Param]) -> str:
    """Parameters with unit, default, range and meaning."""
    rows = []
    for param in params:
        bounds = ", ".join(f'`"{choice}"`' for choice in param.choices) or " to ".join(
            param.show(bound) for bound in (param.minimum, param.maximum) if bound is not None
        )
        default = f"`{param.shown_default}`"
        rows.append((f"`{param.name}`", param.unit, default, bounds, param.doc))
    if not rows:
        return "None."
    return markdown_table(("parameter", "unit", "default", "range", "meaning"), rows)


def markdown_table(
    columns: Iterable[str], rows: Iterable[Iterable[str]], *, escape: bool = True
) -> str:
    """A table in Markdown; `escape` keeps bars in cells from ending them."""

    def line(cells: Iterable[str]) -> str:
        texts = (" ".join(cell.split()) for cell in cells)
        return "| " + " | ".join(t.replace("|", "\\|") if escape else t for t in texts) + " |"

    head = list(columns)
    return "\n".join([line(head), line("---" for _ in head), *map(line, rows)])
