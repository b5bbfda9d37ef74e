"""Follow rules decide which links are followed: compiled once from `follow`, evaluated once for each new URL.

A start URL is always visited. For every other URL the rules are evaluated in the order of their cost; the first one
that refuses gives the reason under which the URL is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crawlfleet.execution.crawl.frontier.frontier import TOO_DEEP
from crawlfleet.execution.crawl.frontier.patterns import BadRule, Patterns
from crawlfleet.execution.crawl.frontier.scope import Scope

OTHER_HOST, FILE_TYPE, DENIED, NOT_ALLOWED = "other host", "file type", "denied", "not allowed"
_EXTENSIONS = (
    "7z aac ai apk avi avif bin bmp bz2 class css deb dmg doc docx dot eot eps exe flac flv gif gz ico iso jar jpeg jpg"
    " js m4a m4v map mid mjs mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx psd rar rpm rtf svg"
    " swf tar tgz tif tiff ttf wasm wav webm webp wma wmv woff woff2 xls xlsx xz zip zst"
)
FILE_EXTENSIONS = frozenset(_EXTENSIONS.split())
"""File name extensions of what is no page: a request only to see the content type would be wasted."""


class FollowRules:
    def __init__(self, follow: Mapping[str, Any], *, starts: Iterable[str], depth: int, same_host: bool | None) -> None:
        """Compile the rules. Raises BadRule with the name of the parameter that cannot be used."""
        self._max_depth = depth
        self.scope = Scope(_scope_kind(follow, same_host), starts, follow.get("hosts", ()))
        allowed = [rule if isinstance(rule, dict) else {"pattern": rule} for rule in follow.get("allow", ())]
        fields = [
            f"follow.allow[{index}]{'.pattern' if isinstance(rule, dict) else ''}"
            for index, rule in enumerate(follow.get("allow", ()))
        ]
        self._allow = Patterns([rule["pattern"] for rule in allowed], fields)
        self._allowed_depths = [rule.get("depth", depth) for rule in allowed]
        denied = list(follow.get("deny", ()))
        self._deny = Patterns(denied, [f"follow.deny[{index}]" for index in range(len(denied))])
        self._skipped_extensions = _skipped_extensions(follow.get("skip_files", True))

    def refusal_reason(self, url: str, depth: int, *, is_named: bool = False) -> str | None:
        """Return why a URL is not to be visited at a depth; None when it is.

        A URL that is named explicitly, as the next page of a list is, needs no pattern that allows it.
        """
        if depth > self._max_depth:
            return TOO_DEEP
        if not self.scope.contains_url(url):
            return OTHER_HOST
        if self._skipped_extensions and _file_extension(url) in self._skipped_extensions:
            return FILE_TYPE
        if self._deny and self._deny.matching_indexes(url):
            return DENIED
        if self._allow and not is_named:
            matches = self._allow.matching_indexes(url)
            if not matches:
                return NOT_ALLOWED
            if all(depth > self._allowed_depths[index] for index in matches):
                return TOO_DEEP
        return None


def _scope_kind(follow: Mapping[str, Any], same_host: bool | None) -> str:
    kind = follow.get("scope")
    if kind is None:
        return "any" if same_host is False else "host"
    if same_host is not None and same_host != (kind == "host"):
        raise BadRule("follow.scope", f"{kind!r} and same_host: {str(same_host).lower()} contradict each other")
    return str(kind)


def _skipped_extensions(skip_files: bool | list[str]) -> frozenset[str]:
    if isinstance(skip_files, bool):
        return FILE_EXTENSIONS if skip_files else frozenset()
    return frozenset(ending.lower().lstrip(".") for ending in skip_files)


def _file_extension(url: str) -> str:
    """Return the file name extension of a URL's path, without its dot; "" for none."""
    name = url.partition("?")[0].rpartition("/")[2]
    stem, _, ending = name.rpartition(".")
    # A wiki's page about a picture is a page: `/wiki/File:Tea.jpg`.
    return ending.lower() if stem and ":" not in stem else ""
