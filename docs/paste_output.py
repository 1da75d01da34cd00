"""Run README's scenario and paste what it prints, after a change that moves its numbers."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def main() -> None:
    """Rewrite the first console block of README.md."""
    page = README.read_text(encoding="utf-8")
    scenario = re.search(r"```toml\n(# home\.toml\n.*?)```", page, re.DOTALL)
    if scenario is None:
        sys.exit("README.md: expected a toml block that begins with # home.toml")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "home.toml").write_text(scenario[1], encoding="utf-8")
        command = [sys.executable, "-m", "dumbbell", "run", "home.toml"]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    lines[-1] = re.sub(r"simulated in .*", "simulated in ...", lines[-1])
    block = "\n".join(["```console", "$ dumbbell run home.toml", *lines, "```"])
    page = re.sub(r"```console\n.*?```", lambda _: block, page, count=1, flags=re.DOTALL)
    README.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
