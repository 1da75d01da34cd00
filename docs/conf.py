"""Sphinx configuration."""

import sys
from pathlib import Path
from typing import Any

import dumbbell

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "dumbbell"
copyright = "2026, the dumbbell contributors"  # noqa: A001
version = release = dumbbell.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 2
autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"dumbbell {version}"
html_static_path = ["_static"]


def _write_reference(_app: Any) -> None:
    import reference

    reference.write_all(HERE)


def setup(app: Any) -> None:
    """Write the generated pages before each build."""
    app.connect("builder-inited", _write_reference)
