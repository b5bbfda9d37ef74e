"""What is generated is what is checked in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.paths import ROOT

SCRIPTS = ROOT / "scripts"


@pytest.mark.parametrize("script", ["generate_client.py", "generate_docs.py"])
def test_checked_in_files_are_what_the_script_makes(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), "--check"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\nrun python scripts/{script}"
