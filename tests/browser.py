"""A page as a browser makes of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def opened(html: str, directory: Path) -> str:
    """The document that Chromium has after running the scripts of `html`; skips the test where
    there is none. Writes below `directory`."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("chromium is not installed")
    page = directory / "opened.html"
    page.write_text(html, encoding="utf-8")
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            f"--user-data-dir={directory / 'profile'}",
            "--window-size=1200,2000",
            "--virtual-time-budget=20000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=110,
    )
    return done.stdout
