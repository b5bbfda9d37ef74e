"""Subjects of evidence: what a task is about, from its content features and from the address of its site.

Every subject in a requirement makes a class of its own, so they are few by rule: the words that a task may name are
bounded, only tasks placed by a strategy that looks at them carry them, and at most `MAX_NAMED_HOSTS` hosts have a class
to themselves on a master at a time; all others share `HOST_BUCKETS` classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from crawlfleet.model import limits
from crawlfleet.model.evidence import BYPASS, CONTENT_KINDS, CONTENT_TYPE, HOST, TECHNOLOGY, Subject

MAX_WORDS = 4
"""Limit on the words of each kind: more than these tell nothing about a page."""
MAX_NAMED_HOSTS = 256
HOST_BUCKETS = 64

_FEATURES = {
    CONTENT_TYPE: ("content_type", "content_types"),
    TECHNOLOGY: ("technology", "technologies"),
    BYPASS: ("anti_crawling", "anti_crawling_bypass"),
}


def content_subjects(features: Mapping[str, Any]) -> tuple[Subject, ...]:
    """The subjects among a task's content features that strategies know."""
    subjects: set[Subject] = set()
    for kind, names in _FEATURES.items():
        words = [word for name in names for word in _words(features.get(name))]
        subjects.update((kind, word) for word in words[:MAX_WORDS])
    return tuple(sorted(subjects))


def url_host(url: object) -> str | None:
    if not isinstance(url, str):
        return None
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.rstrip(".") if host and len(host) <= limits.NAME_CHARS and host.isprintable() else None


def first_host(*places: object) -> str | None:
    """The host of the first URL in any of these parameters, each a URL or a list of them."""
    for value in places:
        urls = value if isinstance(value, list) else [value]
        if urls and (host := url_host(urls[0])) is not None:
            return host
    return None


def host_bucket(host: str) -> Subject:
    number = int.from_bytes(blake2b(host.encode(), digest_size=4).digest(), "big") % HOST_BUCKETS
    return (HOST, f"~{number}")


def outcome_subjects(features: Mapping[str, Any], host: str | None) -> tuple[Subject, ...]:
    """The subjects on which the outcome of a task is evidence. A host counts for its bucket as well: tasks may stand in
    either."""
    subjects = tuple(subject for subject in content_subjects(features) if subject[0] in CONTENT_KINDS)
    return subjects if host is None else (*subjects, (HOST, host), host_bucket(host))


class HostClasses:
    """The hosts that have a class to themselves: the first that come, until there are too many."""

    def __init__(self, max_named: int = MAX_NAMED_HOSTS) -> None:
        self._max_named = max_named
        self._named: set[str] = set()

    def host_subject(self, host: str) -> Subject:
        if host not in self._named:
            if len(self._named) >= self._max_named:
                return host_bucket(host)
            self._named.add(host)
        return (HOST, host)


def strategy_subjects(
    strategy: str, features: Mapping[str, Any], host: str | None, hosts: HostClasses
) -> tuple[Subject, ...]:
    """The subjects of a task that is placed by this strategy."""
    subjects = content_subjects(features)
    if strategy == "content_based":
        return tuple(subject for subject in subjects if subject[0] in CONTENT_KINDS)
    if strategy == "anti_crawling":
        needed = tuple(subject for subject in subjects if subject[0] == BYPASS)
        return needed if host is None else (*needed, hosts.host_subject(host))
    return ()


def _words(value: object) -> list[str]:
    words = value if isinstance(value, list) else [value]
    return [
        word.strip().casefold()
        for word in words
        if isinstance(word, str) and word.strip() and len(word) <= limits.LABEL_CHARS
    ]
