"""Parquet support: pyarrow writes the files; it is large, and an extra of the package (`crawlfleet[parquet]`)."""

from __future__ import annotations

from importlib.util import find_spec

INSTALL_PARQUET = "pip install 'crawlfleet[parquet]'"
"""The command that installs what writing Parquet needs."""


def is_parquet_installed() -> bool:
    """Looks for pyarrow without loading it."""
    return find_spec("pyarrow") is not None
