"""Logs of a process: what libraries print when they are loaded stays out of them."""

import subprocess
import sys

LOADS_SOCKS = """
from crawlfleet.observe.logs import configure_logs
configure_logs()
try:
    import urllib3.contrib.socks
except ImportError:
    pass
"""


def test_a_missing_extra_of_a_library_is_not_a_warning() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS_SOCKS], capture_output=True, text=True, check=True)
    assert done.stderr == ""
