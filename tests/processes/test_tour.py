"""The tour of the examples, chapter by chapter on one cluster of real processes: the system does what is documented."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from examples.tour import run
from examples.tour.cluster import Cluster, running_cluster
from examples.tour.narrator import Differs, Narrator, submit_command
from examples.tour.stage import Stage, only
from tests.docs.test_pages import complaint
from tests.paths import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    tell = Narrator()
    with running_cluster(tell.command) as cluster:
        yield Stage(cluster, tell)


@pytest.mark.parametrize("chapter", run.CHAPTERS)
def test_chapter(stage: Stage, chapter: str) -> None:
    run.CHAPTERS[chapter](stage)


def test_what_it_tells_people_to_type_exists(stage: Stage) -> None:
    told = {_shape(use) for use in stage.tell.commands}
    assert len(told) > 10
    assert {use: why for use in told if (why := complaint(use)) is not None} == {}


def _shape(use: str) -> str:
    """The command and its options, without their values: few of so many differ in more than those."""
    words = shlex.split(use)
    return " ".join([*words[:3], *sorted({word for word in words[3:] if word.startswith("--")})])


def test_a_system_that_does_something_else_is_told_and_the_tour_goes_on_and_fails(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def wrong(stage: Stage) -> None:
        with stage.scene("Only Tokyo will do."):
            stage.chosen("paris", **only("tokyo"))

    @contextmanager
    def this_cluster(_: object) -> Iterator[Cluster]:
        yield stage.cluster

    monkeypatch.setattr(run, "CHAPTERS", {"wrong": wrong, "next": lambda _: told.append("next")})
    monkeypatch.setattr(run, "running_cluster", this_cluster)
    assert run.main([]) == 1
    assert "wrong: chosen: expected 'paris', happened 'tokyo'" in capsys.readouterr().err
    assert told == ["next"]


def test_a_chapter_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["nowhere"]) == 2
    assert "no chapter nowhere" in capsys.readouterr().err


def test_a_check_that_holds_says_so_and_one_that_does_not_raises() -> None:
    lines: list[str] = []
    tell = Narrator(lines.append)
    tell.check(1, 1, "one")
    assert lines == ["   ✓ one: 1"]
    with pytest.raises(Differs, match="two: expected 2, happened 1"):
        tell.check(2, 1, "two")
    with pytest.raises(Differs, match="expected less than 3, happened 5"):
        tell.check_that(False, "less than 3", 5)


def test_a_command_says_what_the_client_is_called_with_and_can_be_copied() -> None:
    said = submit_command("echo", {"a": [1]}, {"priority": 7, "cluster": "eu", "capabilities": {"x": ["y z"]}})
    assert said == (
        """crawlfleet task submit echo --params '{"a": [1]}' --priority 7 --field cluster=eu"""
        """ --field 'capabilities={"x": ["y z"]}'"""
    )
    lines: list[str] = []
    Narrator(lines.append).command(said)
    assert lines[0].replace(" \\\n       ", " ") == f"   $ {said}"


def test_stopped_by_ctrl_c_it_leaves_nothing_behind(tmp_path: Path) -> None:
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "tour"), "cron"], env=env, stdout=subprocess.PIPE, text=True
    ) as tour:
        assert tour.stdout is not None
        # Once it waits for the full minute everything has been started.
        assert any("will be in the way" in line for line in tour.stdout)
        family = psutil.Process(tour.pid).children(recursive=True)
        assert len(family) >= 8
        tour.send_signal(signal.SIGINT)
        assert tour.wait(PATIENCE_S) == 130
        assert "Everything that was started has ended." in tour.stdout.read()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert alive == []
    assert list(tmp_path.iterdir()) == []
