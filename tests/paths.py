"""Where the project's files are, for tests that start programs of it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def module_name(path: Path) -> str:
    """The dotted name under which a file of the tests is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)
