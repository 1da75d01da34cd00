"""Designed experiments whose analysis is published, in Yates' standard order."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def full_factorial(factors: Sequence[str], y: Sequence[float]) -> pd.DataFrame:
    """Runs of a two-level factorial, the first factor alternating fastest, with a response `y`."""
    rows = [
        [1 if run >> place & 1 else -1 for place in range(len(factors))] for run in range(len(y))
    ]
    return pd.DataFrame(rows, columns=list(factors)).assign(y=[float(value) for value in y])


def filtration() -> pd.DataFrame:
    """D. C. Montgomery, Design and Analysis of Experiments, pilot plant filtration rate, 2^4."""
    y = [45, 71, 48, 65, 68, 60, 80, 65, 43, 100, 45, 104, 75, 86, 70, 96]
    return full_factorial("ABCD", y)


def process_development() -> pd.DataFrame:
    """Box, Hunter and Hunter, Statistics for Experimenters, process development study, 2^4."""
    y = [71, 61, 90, 82, 68, 61, 87, 80, 61, 50, 89, 83, 59, 51, 85, 78]
    return full_factorial("ABCD", y)


def eddy_current() -> pd.DataFrame:
    """NIST/SEMATECH e-Handbook, 5.6.1: eddy current probe sensitivity (SPLETT3.DAT), 2^3."""
    return full_factorial(["X1", "X2", "X3"], [1.70, 4.57, 0.55, 3.39, 1.51, 4.59, 0.67, 4.29])


def nist_32() -> pd.DataFrame:
    """The 2^(9-4) design of resolution IV: 6 = 2345, 7 = 1345, 8 = 1245, 9 = 1235."""
    frame = full_factorial(["X1", "X2", "X3", "X4", "X5"], [0.0] * 32)
    for name, word in (("X6", "2345"), ("X7", "1345"), ("X8", "1245"), ("X9", "1235")):
        frame[name] = frame[[f"X{place}" for place in word]].prod(axis=1)
    return frame


NIST_FACTORS = [f"X{place}" for place in range(1, 10)]


def npk() -> pd.DataFrame:
    """R's `npk`: a 2^3 of fertilisers on peas in six blocks, NPK confounded with blocks."""
    text = """
        1 0 1 1 49.5  1 1 1 0 62.8  1 0 0 0 46.8  1 1 0 1 57.0
        2 1 0 0 59.8  2 1 1 1 58.5  2 0 0 1 55.5  2 0 1 0 56.0
        3 0 1 0 62.8  3 1 1 1 55.8  3 1 0 0 69.5  3 0 0 1 55.0
        4 1 0 0 62.0  4 1 1 1 48.8  4 0 0 1 45.5  4 0 1 0 44.2
        5 1 1 0 52.0  5 0 0 0 51.5  5 1 0 1 49.8  5 0 1 1 48.8
        6 1 0 1 57.2  6 1 1 0 59.0  6 0 1 1 53.2  6 0 0 0 56.0
    """
    runs = text.split()
    rows = [runs[start : start + 5] for start in range(0, len(runs), 5)]
    frame = pd.DataFrame(rows, columns=["block", "N", "P", "K", "yield"])
    return frame.astype({"yield": float})


def warpbreaks() -> pd.DataFrame:
    """R's `warpbreaks`: breaks of yarn by wool (2) and tension (3), nine looms each."""
    breaks = {
        "A L": [26, 30, 54, 25, 70, 52, 51, 26, 67],
        "A M": [18, 21, 29, 17, 12, 18, 35, 30, 36],
        "A H": [36, 21, 24, 18, 10, 43, 28, 15, 26],
        "B L": [27, 14, 29, 19, 29, 31, 41, 20, 44],
        "B M": [42, 26, 19, 16, 39, 28, 21, 39, 29],
        "B H": [20, 21, 24, 17, 13, 15, 15, 16, 28],
    }
    rows = [(*key.split(), value) for key, values in breaks.items() for value in values]
    return pd.DataFrame(rows, columns=["wool", "tension", "breaks"])


def sleep() -> pd.DataFrame:
    """R's `sleep` (Student, 1908): extra hours of sleep of ten patients with two drugs."""
    hours = {
        1: [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        2: [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    }
    rows = [
        (group, place, extra) for group, all_ in hours.items() for place, extra in enumerate(all_)
    ]
    return pd.DataFrame(rows, columns=["group", "patient", "extra"])
