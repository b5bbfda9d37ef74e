"""Raises the limit of open files: each connection is one file, and the usual limit of 1,024 is low."""

from __future__ import annotations

import resource

MOST_FILES = 1 << 20


def raise_file_limit() -> int:
    """Raise the soft limit of this process, and of those that it starts, to the hard limit. Returns the limit that is
    now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
