"""Job arrays of batch systems: each job does one shard of a study."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from dumbbell._errors import UsageError
from dumbbell.studies._store import Store, reason

_SCRIPT = """\
#!/bin/sh
#SBATCH --job-name={name}
#SBATCH --array=1-{shards}
#SBATCH --cpus-per-task={workers}
#SBATCH --output={log}
{directives}
# The number of the job in its array, from 1, as Slurm, PBS and Grid Engine give it; with another
# batch system, or by hand, it is the first argument.
shard="${{SLURM_ARRAY_TASK_ID:-${{PBS_ARRAY_INDEX:-${{SGE_TASK_ID:-$1}}}}}}"
exec {command} --shard "$shard/{shards}" --workers {workers}
"""


def write_job_array(
    store: Store, shards: int, *, workers: int = 1, directives: Sequence[str] = ()
) -> Path:
    """Write `slurm.sh` in a study's directory, for `sbatch`.

    `directives` are further options of sbatch, such as "--time=02:00:00". Raises UsageError.
    """
    directory = store.directory.absolute()
    for value, name in ((shards, "shards"), (workers, "workers")):
        if value < 1:
            raise UsageError(f"--{name} {value}: expected at least 1")
    for directive in directives:
        if not directive.startswith("-") or "\n" in directive:
            raise UsageError(f'--sbatch "{directive}": expected an option, such as --time=02:00:00')
    text = _SCRIPT.format(
        name=directory.name.replace(" ", "_"),
        shards=shards,
        workers=workers,
        log=str(directory / "slurm-%A_%a.log").replace(" ", "\\ "),
        directives="".join(f"#SBATCH {directive}\n" for directive in directives),
        command=shlex.join([sys.executable, "-m", "dumbbell", "study", "run", str(directory)]),
    )
    path = store.directory / "slurm.sh"
    try:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {reason(error)}") from None
    return path
