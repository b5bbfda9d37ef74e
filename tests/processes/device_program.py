"""The device of the examples with one more type of task: `scan` runs until its file exists, or for a short while."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_POLL_S = 0.05


def scan(params: dict[str, Any], stop: threading.Event) -> dict[str, Any]:
    if (file := params.get("file")) is not None:
        while not stop.wait(_POLL_S) and not Path(file).exists():
            pass
    return params


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "examples"))
    import device_client  # type: ignore[import-not-found]

    device_client.start({**device_client.RUNNERS, "scan": scan})
