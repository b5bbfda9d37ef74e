"""Users' strategies are found by their entry points, and the example is one."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from crawlfleet import Candidates
from crawlfleet.bootstrap.strategies import GROUP, own_strategies
from crawlfleet.control.leader.strategy_registry import StrategyRegistry
from crawlfleet.errors import ConfigError
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.settings.loading import load_settings
from crawlfleet.settings.master import STRATEGY_GROUP, MasterSettings
from crawlfleet.settings.provenance import BadSetting
from tests.node_states import node_state
from tests.paths import ROOT

EXAMPLE = ROOT / "examples" / "own_strategy"


def installed(folder: Path, name: str, **points: str) -> None:
    """As pip leaves a package, without its modules."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_example_chooses_the_cheapest_node(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    installed(packages, "cheapest_strategy", **project["entry-points"][GROUP])
    monkeypatch.syspath_prepend(EXAMPLE)
    book = StrategyRegistry(own_strategies())
    nodes = [
        node_state(1, slots=4),
        node_state(2, slots=2, capabilities=(("price_per_hour", 0.04),)),
        node_state(3, slots=2, capabilities=(("price_per_hour", 0.5),)),
    ]
    requirement = Requirement("web_crawl", strategy="cheapest")
    placer = Placer(nodes, rng=random.Random(1), strategies=book.factories)
    assert [state.node.id for state in placer.place_tasks(requirement, "p", 5)] == [2, 2, 3, 3, 1]
    assert book.pending_events == []
    assert load_settings(MasterSettings, flags={"strategy": "cheapest"}).settings.strategy == "cheapest"


def test_without_packages_there_are_none() -> None:
    assert own_strategies() == {}
    assert GROUP == STRATEGY_GROUP


def test_the_name_of_a_built_in_strategy_is_taken(packages: Path) -> None:
    installed(packages, "mine", least_loaded="mine:Mine")
    with pytest.raises(ConfigError, match=r"'least_loaded'.*built-in"):
        own_strategies()


def test_two_packages_cannot_have_one_name(packages: Path) -> None:
    installed(packages, "mine", near="mine:Near")
    installed(packages, "yours", near="yours:Near")
    with pytest.raises(ConfigError, match=r"'near'.*twice"):
        own_strategies()


@pytest.mark.parametrize("value", ["no_such_module:Mine", "tomllib:no_such_name", "tomllib:__doc__"])
def test_what_cannot_be_loaded_fails_when_it_is_used_and_keeps_no_master_down(packages: Path, value: str) -> None:
    installed(packages, "mine", near=value)
    make = own_strategies()["near"]
    with pytest.raises(ConfigError, match=value):
        make(Candidates(Requirement("web_crawl"), [], random.Random(1), 0))


def test_a_setting_names_only_what_is_installed() -> None:
    with pytest.raises(BadSetting, match="cheapest"):
        load_settings(MasterSettings, flags={"strategy": "cheapest"})
