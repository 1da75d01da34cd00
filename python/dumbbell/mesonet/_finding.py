"""What became of one statement of the NIST study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dumbbell._errors import UsageError

Verdict = Literal[
    "reproduced", "reproduced in part", "not reproduced", "not testable at this scale"
]
REPRODUCED: Verdict = "reproduced"
IN_PART: Verdict = "reproduced in part"
NOT_REPRODUCED: Verdict = "not reproduced"
NOT_TESTABLE: Verdict = "not testable at this scale"
VERDICTS: tuple[Verdict, ...] = (REPRODUCED, IN_PART, NOT_REPRODUCED, NOT_TESTABLE)


@dataclass(frozen=True)
class Finding:
    """`number` is the measured numbers behind the verdict, and the published one where there is
    one; `reason` says why a verdict is not plainly "reproduced"."""

    id: str
    statement: str
    verdict: Verdict
    number: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise UsageError(f'verdict "{self.verdict}": expected one of {", ".join(VERDICTS)}')
        if self.verdict != REPRODUCED and not self.reason:
            raise UsageError(f"{self.id}: expected a reason for {self.verdict}")
