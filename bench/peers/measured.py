"""What a peer says of itself when its crawl is over."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Self


class Measured:
    """From after its imports to its end: what a process needs to start is nobody's crawl."""

    def __enter__(self) -> Self:
        self._cpu_s = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        cpu_s = time.process_time() - self._cpu_s
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        sys.stdout.write(json.dumps({"cpu_s": cpu_s, "memory_mb": memory_mb}) + "\n")
        sys.stdout.flush()
