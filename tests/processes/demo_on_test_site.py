"""`crawlfleet demo` with its shop served by the test site, which can hold pages back. A process of its own.

python -m tests.processes.demo_on_test_site demo --products 200
"""

from __future__ import annotations

from unittest.mock import patch

from crawlfleet.bootstrap import demo
from crawlfleet.cli.app import main
from testkit.site import start_shop

if __name__ == "__main__":
    with patch.object(demo, "start_shop", start_shop):
        main()
