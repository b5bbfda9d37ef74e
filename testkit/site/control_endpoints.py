"""The control endpoints of the site, under `/-/`, for tests that run it in another process. They are not in its log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour_table import BEHAVIOURS
from testkit.site.nasty.robots import VARIANTS
from testkit.site.page_gate import PREFIX
from testkit.site.page_list import Rules

if TYPE_CHECKING:
    from testkit.site.site import Site

Given = dict[str, str]
_WAITS = "wait-held"


def answer_control(site: Site, exchange: Exchange) -> Answer:
    request = exchange.request
    name = request.path.removeprefix(PREFIX)
    if name == _WAITS:
        return _wait_held(site, exchange)
    endpoint = _ENDPOINTS.get(name)
    if endpoint is None:
        return _json(404, {"doors": sorted([*_ENDPOINTS, _WAITS])})
    try:
        return _json(200, endpoint(site, request.parameters))
    except (KeyError, ValueError) as exc:
        return _json(422, {"detail": str(exc)})


def parse_rules(given: Given) -> Rules:
    names = {field.name for field in fields(Rules)}
    if strange := given.keys() - names:
        raise ValueError(f"no such rule: {', '.join(sorted(strange))}")
    return Rules(**{name: value == "1" for name, value in given.items()})


def _log(site: Site, given: Given) -> Any:
    """Return requests selected by `under`, `host` and `since`, with the figures of those selected."""
    which: dict[str, Any] = {"under": given.get("under", ""), "since": float(given.get("since", 0))}
    which["host"] = given.get("host")
    log = site.log
    return {
        "total": log.total,
        "asked": [request._asdict() for request in log.select(**which)],
        "most_in_a_second": log.most_in(1.0, **which),
        "duplicates": log.duplicates(**which),
        "visitors": [[*who, count] for who, count in log.visitors(**which).items()],
        "connections": len(log.connections(**which)),
    }


def _set(site: Site, given: Given) -> Any:
    """Set `version`, `robots` and `most_per_second` (0 for no limit): all of them are checked before any is set."""
    robots = given.get("robots", site.robots)
    if robots not in VARIANTS:
        raise ValueError(f"robots: one of {', '.join(VARIANTS)}")
    max_per_second = int(given["most_per_second"]) or None if "most_per_second" in given else site.most_per_second
    site.set_version(int(given.get("version", site.version)))
    site.robots, site.most_per_second = robots, max_per_second
    return {"version": site.version, "robots": site.robots, "most_per_second": site.most_per_second}


def _clear(site: Site, _: Given) -> Any:
    site.log.clear()
    return {}


def _changes(site: Site, given: Given) -> Any:
    return site.changes(int(given["before"]), int(given["after"]))._asdict()


def _hold(site: Site, given: Given) -> Any:
    """Hold pages by `pattern` and `after`, as in `PageGate.hold`."""
    site.gate.hold(given.get("pattern", ""), after=int(given.get("after", 0)))
    return {}


def _held(site: Site, given: Given) -> Any:
    """Return the number of held requests, for one `pattern` or for all."""
    return {"held": site.gate.held(given.get("pattern"))}


async def _wait_held(site: Site, exchange: Exchange) -> None:
    """Answer when at least `count` requests are held, for one `pattern` or for all."""
    given = exchange.request.parameters
    try:
        count = int(given.get("count", "1"))
    except ValueError as exc:
        await exchange.send(_json(422, {"detail": str(exc)}))
        return
    await site.gate.wait_held(count, given.get("pattern"))
    await exchange.send(_json(200, {"held": site.gate.held(given.get("pattern"))}))


def _release(site: Site, given: Given) -> Any:
    """Release held requests, for one `pattern` or for all."""
    return {"released": site.gate.release(given.get("pattern"))}


_ENDPOINTS: dict[str, Callable[[Site, Given], Any]] = {
    "pages": lambda site, given: site.reachable(parse_rules(given)),
    "items": lambda site, _: site.items(),
    "log": _log,
    "clear": _clear,
    "set": _set,
    "hold": _hold,
    "held": _held,
    "release": _release,
    "changes": _changes,
    "behaviours": lambda _, __: [{"path": it.path, "does": it.does, "good": it.good} for it in BEHAVIOURS],
}


def _json(status: int, value: Any) -> bytes:
    return write_response(status, json.dumps(value), content_type="application/json")
