"""What a crawl follows, compiled from its parameters: `follow`, `normalise`, `traps`, `sitemaps`, `pagination`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crawlfleet.execution.crawl.links import canonical
from crawlfleet.execution.crawl.normalise import Normaliser
from crawlfleet.execution.crawl.pagination import Pagination
from crawlfleet.execution.crawl.patterns import BadRule
from crawlfleet.execution.crawl.rules import FollowRules
from crawlfleet.execution.crawl.traps import Caps


@dataclass(frozen=True, slots=True)
class Following:
    normalise: Normaliser
    rules: FollowRules
    caps: Caps | None
    """None: no guards against traps."""
    sitemaps: tuple[str, ...]
    """To be read before the pages."""
    finds_sitemaps: bool
    """Those that the robots.txt of the start URLs' hosts names, or the usual one."""
    pagination: Pagination | None
    obeys_nofollow: bool

    @property
    def finds_more(self) -> bool:
        """Whether there are pages to come besides the start URLs and what they link to."""
        return bool(self.sitemaps) or self.finds_sitemaps or self.pagination is not None


def normaliser_of(parameters: Mapping[str, Any]) -> Normaliser:
    return Normaliser(**parameters.get("normalise", {}))


def following_of(parameters: Mapping[str, Any], starts: Iterable[str], depth: int) -> Following:
    """Raises BadRule with the name of the parameter that cannot be used."""
    normalise = normaliser_of(parameters)
    follow = parameters.get("follow", {})
    traps = parameters.get("traps", True)
    sitemaps = parameters.get("sitemaps", False)
    pagination = parameters.get("pagination")
    return Following(
        normalise=normalise,
        rules=FollowRules(follow, starts=starts, depth=depth, same_host=parameters.get("same_host")),
        caps=None if traps is False else Caps(**(traps if isinstance(traps, Mapping) else {})),
        sitemaps=_urls(sitemaps) if isinstance(sitemaps, list | tuple) else (),
        finds_sitemaps=sitemaps is True,
        pagination=None if pagination is None else Pagination(pagination, normalise),
        obeys_nofollow=bool(follow.get("obey_nofollow", False)),
    )


def problems_of(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with parameters that fit their schema: field and detail."""
    try:
        following_of(parameters, (), 0)
    except BadRule as exc:
        return [(exc.field, exc.detail)]
    return []


def _urls(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for at, text in enumerate(texts):
        if (url := canonical(text)) is None:
            raise BadRule(f"sitemaps[{at}]", f"{text!r} is no URL")
        found[url] = None
    return tuple(found)
