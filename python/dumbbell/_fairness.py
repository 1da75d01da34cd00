"""How equal rates are: the measures of RFC 5166 section 2.3.1 of a sequence of rates.

Plain Python, for runs without numpy. Rates are finite and not below 0; NaN where there are none, or
all are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def jain(rates: Sequence[float]) -> float:
    """Jain's index, (sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has everything.

    Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984).
    """
    most = max(rates, default=0.0)
    if not most:
        return math.nan
    # Squares of very large and very small rates would not be there.
    shares = [rate / most for rate in rates]
    return math.fsum(shares) ** 2 / (len(shares) * math.fsum(x * x for x in shares))


def max_min_ratio(rates: Sequence[float]) -> float:
    """The highest rate over the lowest: 1 where all are equal, infinite where one starves."""
    most = max(rates, default=0.0)
    if not most:
        return math.nan
    return most / min(rates) if min(rates) else math.inf


def epsilon(rates: Sequence[float]) -> float:
    """The least epsilon with which rates are epsilon-fair: min/max = 1 - epsilon."""
    most = max(rates, default=0.0)
    return 1 - min(rates) / most if most else math.nan
