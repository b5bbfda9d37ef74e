"""The follow configuration is compiled from `follow`, `normalise`, `traps`, `sitemaps` and `pagination`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs

from crawlfleet.execution.crawl.frontier.follow_rules import FollowRules
from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from crawlfleet.execution.crawl.frontier.pagination import Pagination
from crawlfleet.execution.crawl.frontier.patterns import BadRule
from crawlfleet.execution.crawl.frontier.traps import TrapLimits
from crawlfleet.execution.crawl.frontier.urls import canonical_url
from crawlfleet.execution.crawl.schemas.follow import follow_properties


@dataclass(frozen=True, slots=True)
class FollowConfig:
    normalise: Normaliser
    rules: FollowRules
    trap_limits: TrapLimits | None
    """Limits of the guards against traps; None for no guards."""
    sitemaps: tuple[str, ...]
    """Sitemaps that are read before the pages."""
    finds_sitemaps: bool
    """Whether to read the sitemaps that the robots.txt of the start URLs' hosts names, or else /sitemap.xml."""
    pagination: Pagination | None
    obeys_nofollow: bool
    obeys_canonical: bool

    @property
    def finds_more(self) -> bool:
        """Whether there are pages to come besides the start URLs and the pages they link to."""
        return bool(self.sitemaps) or self.finds_sitemaps or self.pagination is not None


def make_normaliser(parameters: Mapping[str, Any]) -> Normaliser:
    return Normaliser(**parameters.get("normalise", {}))


def compile_follow_config(parameters: Mapping[str, Any], starts: Iterable[str], depth: int) -> FollowConfig:
    """Compile the configuration. Raises BadRule with the name of the parameter that cannot be used."""
    normalise = make_normaliser(parameters)
    follow = parameters.get("follow", {})
    traps = parameters.get("traps", True)
    sitemaps = parameters.get("sitemaps", False)
    pagination = parameters.get("pagination")
    return FollowConfig(
        normalise=normalise,
        rules=FollowRules(follow, starts=starts, depth=depth, same_host=parameters.get("same_host")),
        trap_limits=None if traps is False else TrapLimits(**(traps if isinstance(traps, Mapping) else {})),
        sitemaps=_sitemap_urls(sitemaps) if isinstance(sitemaps, list | tuple) else (),
        finds_sitemaps=sitemaps is True,
        pagination=None if pagination is None else Pagination(pagination, normalise),
        obeys_nofollow=bool(follow.get("obey_nofollow", False)),
        obeys_canonical=bool(follow.get("obey_canonical", False)),
    )


def find_follow_problems(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong with the parameters: field and detail of each problem that can be determined."""
    # The schema that the submission was checked against may come from a node of another version.
    follow_parameters = {name: value for name, value in parameters.items() if name in _parameter_schemas()}
    errors = _parameter_validator().iter_errors(follow_parameters)
    if problems := [(_error_path(error), error.message) for error in errors]:
        return problems
    try:
        compile_follow_config(parameters, (), 0)
    except BadRule as exc:
        return [(exc.field, exc.detail)]
    return []


@cache
def _parameter_schemas() -> dict[str, Any]:
    return {**follow_properties({"type": "string"}), "same_host": {"type": "boolean"}}


@cache
def _parameter_validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"type": "object", "properties": _parameter_schemas()})


def _error_path(error: jsonschema_rs.ValidationError) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return "".join(steps).removeprefix(".")


def _sitemap_urls(texts: Iterable[str]) -> tuple[str, ...]:
    urls: dict[str, None] = {}
    for index, text in enumerate(texts):
        if (url := canonical_url(text)) is None:
            raise BadRule(f"sitemaps[{index}]", f"{text!r} is no URL")
        urls[url] = None
    return tuple(urls)
