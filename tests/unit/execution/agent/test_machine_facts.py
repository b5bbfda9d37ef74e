"""What a node finds out about itself, and what its owner may add."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import structlog

from crawlfleet.execution.agent.machine_facts import Capability, count_gpus, machine_id, probe_machine, usable_cpus


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which no program is to be found."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_bare_machine_claims_nothing(bare: Path) -> None:
    found = probe_machine()
    assert "javascript_rendering" not in found.capabilities
    assert "sandbox" not in found.capabilities
    assert found.capabilities["python"] == [f"{sys.version_info[0]}.{sys.version_info[1]}"]
    assert found.resources["cpu"] >= 0.1
    assert found.resources["memory_mb"] > 64
    assert "gpu" not in found.resources


def test_programs_that_nothing_uses_are_no_capabilities(bare: Path) -> None:
    program(bare / "bin" / "chromium")
    program(bare / "bin" / "bwrap")
    program(bare / ".cache" / "ms-playwright" / "chromium-1200" / "chrome-linux" / "chrome")
    assert set(probe_machine().capabilities) == {"python", "os", "architecture"}


def test_gpus_are_counted(bare: Path) -> None:
    program(bare / "bin" / "nvidia-smi", "echo 'GPU 0: A'; echo 'GPU 1: B'")
    assert count_gpus() == 2
    assert probe_machine().resources["gpu"] == 2
    program(bare / "bin" / "nvidia-smi", "exit 9")
    assert count_gpus() == 0


def test_a_containers_share_of_the_processors_counts(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    quota = tmp_path / "cpu.max"
    assert usable_cpus(quota) == cores
    quota.write_text("max 100000\n")
    assert usable_cpus(quota) == cores
    quota.write_text("50000 100000\n")
    assert usable_cpus(quota) == 0.5


def test_agents_that_share_a_machine_say_the_same_of_it(tmp_path: Path) -> None:
    boot, quota, memory = tmp_path / "boot_id", tmp_path / "cpu.max", tmp_path / "memory.max"
    assert machine_id(boot, quota, memory) == "", "no telling"
    boot.write_text("5b0c7a\n")
    assert machine_id(boot, quota, memory) == "5b0c7a"
    quota.write_text("max 100000\n")
    memory.write_text("max\n")
    assert machine_id(boot, quota, memory) == "5b0c7a"
    for file, limit in ((quota, "50000 100000\n"), (memory, "1073741824\n")):
        file.write_text(limit)
        limited = machine_id(boot, quota, memory)
        assert limited.startswith("5b0c7a/"), "a container with limits has what it declares for itself"
        assert machine_id(boot, quota, memory) == limited
    assert probe_machine().machine == machine_id()


def test_the_user_adds_capabilities_but_not_those_that_are_probed(bare: Path) -> None:
    given: dict[str, Capability] = {"javascript_rendering": 1, "sandbox": 1, "content_types": ["html"], "os": ["other"]}
    with structlog.testing.capture_logs() as lines:
        found = probe_machine(given)
    assert found.capabilities == probe_machine().capabilities | {"content_types": ["html"]}
    assert [line["capability"] for line in lines] == ["javascript_rendering", "os", "sandbox"]
    assert {line["event"] for line in lines} == {"capability_ignored"}


def test_an_agent_that_offers_a_part_of_its_machine_has_that_for_itself(bare: Path) -> None:
    found = probe_machine(offered_resources={"cpu": 0.5, "memory_mb": 100.0})
    assert found.resources == {"cpu": 0.5, "memory_mb": 100.0}
    assert found.machine == ""


def test_what_it_offers_beside_its_machine_changes_nothing_else(bare: Path) -> None:
    found, usual = probe_machine(offered_resources={"licences": 3.0}), probe_machine()
    assert found.resources == {**usual.resources, "licences": 3.0}
    assert found.machine == usual.machine
