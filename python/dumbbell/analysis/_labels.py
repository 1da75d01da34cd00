"""Names in figures of effects made to fit: broken into lines, shrunk, or replaced by letters."""

from __future__ import annotations

import string
import textwrap
from collections.abc import Iterable

_LONG = 20


def mean_of(response: str) -> str:
    """`mean goodput`, on lines of a height that axes have."""
    text = response if response.startswith("mean") else f"mean {response}"
    return wrapped(text)


def wrapped(text: str, width: int = 28) -> str:
    """A text on as many lines as it takes."""
    return "\n".join(textwrap.wrap(text, width))


def fitting(text: str, width_in: float, most: float) -> float:
    """The size of letters, at most `most` points, at which a text is about so wide."""
    return min(most, 72 * width_in / (0.6 * len(text)))


def short_terms(terms: Iterable[str]) -> tuple[dict[str, str], str]:
    """Labels of factors and interactions (`A:B`), and a key to their letters.

    Where a term is long, interactions are of letters, and factors are a letter with the name. The
    key is empty where letters are not needed.
    """
    given = list(terms)
    factors = [term for term in given if ":" not in term]
    parts = {part for term in given for part in term.split(":")}
    if max(map(len, given)) <= _LONG or parts != set(factors):
        return {term: term for term in given}, ""
    # By name, so that one factor has one letter in all figures of a study.
    letters = dict(zip(sorted(factors), _letters(), strict=False))
    labels = {
        term: ":".join(sorted(letters[part] for part in term.split(":")))
        if ":" in term
        else f"{letters[term]}  {term}"
        for term in given
    }
    # Spaces that do not break keep a letter and its name on one line.
    items = (
        f"{letter} {name}".replace(" ", "\N{NO-BREAK SPACE}") for name, letter in letters.items()
    )
    return labels, "; ".join(items)


def _letters() -> Iterable[str]:
    yield from string.ascii_uppercase
    for first in string.ascii_uppercase:
        for second in string.ascii_uppercase:
            yield first + second
