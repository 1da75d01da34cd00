"""What the benchmarks share: the machine's description, and CPU time of commands and calls."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Measurement:
    """CPU time of one scenario in one simulator, measured several times."""

    simulator: str
    version: str
    scenario: str
    variant: str
    simulated_s: float
    packets: int
    """Packets that left the bottleneck."""
    cpu_s: list[float]
    """Of the event loop alone, one entry a run."""
    note: str = ""
    kpps_best: float = field(init=False)
    kpps_median: float = field(init=False)
    """Thousand bottleneck packets per CPU second."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kpps_best", self.packets / min(self.cpu_s) / 1e3)
        object.__setattr__(self, "kpps_median", self.packets / statistics.median(self.cpu_s) / 1e3)


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system and load of this machine."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": list(os.getloadavg()),
    }


def cpu_seconds() -> float:
    """User and system time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def output_of(command: Sequence[str | Path], *, timeout_s: float) -> str | None:
    """Standard output of a command, or None if it failed or took too long."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def save(path: Path, measurements: Sequence[Measurement], **more: Any) -> None:
    """Write measurements with the machine and the date as JSON."""
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "measurements": [asdict(measurement) for measurement in measurements],
        **more,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
