"""Evaluates cron expressions: the instants that an expression names in a time zone.

Expressions are read by cronsim, on local time without a zone; the zone is put on here, as its own way through the hours
that daylight saving leaves out or repeats loses ticks where the shift is not a whole hour. The rules are those of
Debian's cron. An expression that names its minutes and hours has every tick once: one in the hour that is left out
fires where that hour would have ended, one in the hour that comes twice fires the first time. An expression with `*` in
its minutes or hours goes by real time: nothing in the hour that is left out, everything in both that are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from heapq import heappop, heappush
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import DEFAULT_ZONE

_FIELDS = 5
MAX_TIMES = 20_000
"""Limit on the times that are looked at for one within a gap: more than a week of minutes."""
_LONGEST_SHIFT = timedelta(hours=3)
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_NO_SHIFT = timedelta()


def check_expression(expression: str) -> None:
    """Check an expression. Raises InvalidInput for what is none, or names a day that no month has."""
    if len(expression.split()) != _FIELDS:
        raise InvalidInput("five fields: minute, hour, day of month, month, day of week", field="cron")
    try:
        CronSim(expression, _ANY_TIME)
    except CronSimError as exc:
        raise InvalidInput(f"{str(exc).lower()}, or it never fires", field="cron") from exc


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=1_000)
def find_time_zone(name: str) -> tzinfo:
    """The time zone of this name. Raises InvalidInput for a name that no time zone has."""
    if name == DEFAULT_ZONE:
        return UTC
    # Known by the list of them: a name is a path to a file as well, and looking for it in vain takes long.
    if name not in _zone_names():
        detail = f"no time zone has the name {name[: limits.LABEL_CHARS]!r}; one is Europe/Berlin"
        raise InvalidInput(detail, field="time_zone")
    return ZoneInfo(name)


def cron_instants(expression: str, time_zone: str, after: Instant) -> Iterator[Instant]:
    """The instants after `after`, ascending; none when there is none for fifty years."""
    zone = find_time_zone(time_zone)
    begin = datetime.fromtimestamp(after // 1000, zone)
    by_real_time = any(field.startswith("*") for field in expression.split()[:2])
    if by_real_time:
        # What comes twice may have come once already, and is named by times before this one.
        begin -= max(_NO_SHIFT, _offset(begin) - _offset((begin.astimezone(UTC) + _LONGEST_SHIFT).astimezone(zone)))
    local_times = CronSim(expression, begin.replace(tzinfo=None))
    last = after
    for instant in _repeated_instants(local_times, zone) if by_real_time else _single_instants(local_times, zone):
        if instant > last:
            last = instant
            yield instant


def find_skipped_time(expression: str, time_zone: str, after: Instant, until: Instant) -> datetime | None:
    """Return the first local time that the expression names within a gap of the zone, by `MAX_TIMES` of its times; None
    for none."""
    zone = find_time_zone(time_zone)
    if zone is UTC:
        return None
    begin, end = (datetime.fromtimestamp(instant // 1000, zone) for instant in (after, until))
    if _offset(begin) >= _offset(end):
        return None
    for local in islice(CronSim(expression, begin.replace(tzinfo=None)), MAX_TIMES):
        if local > end.replace(tzinfo=None):
            return None
        first, second = _possible_instants(local, zone)
        if first > second:
            return local
    return None


def _single_instants(local_times: Iterator[datetime], zone: tzinfo) -> Iterator[Instant]:
    for local in local_times:
        first, second = _possible_instants(local, zone)
        yield first if first <= second else _end_of_gap(second, first, zone)


def _repeated_instants(local_times: Iterator[datetime], zone: tzinfo) -> Iterator[Instant]:
    repeated: list[Instant] = []
    for local in local_times:
        first, second = _possible_instants(local, zone)
        if first > second:
            continue
        # The second time of an earlier one may come before the only time of this one.
        while repeated and repeated[0] < first:
            yield heappop(repeated)
        yield first
        if second > first:
            heappush(repeated, second)
    yield from sorted(repeated)


def _possible_instants(local: datetime, zone: tzinfo) -> tuple[Instant, Instant]:
    """The instants of a local time by the offset before and after a shift: equal but for times that come twice (the
    first is the earlier one) or not at all (the first is the later one)."""
    first = local.replace(tzinfo=zone)
    if zone is UTC:
        return _instant(first), _instant(first)
    return _instant(first), _instant(first.replace(fold=1))


def _end_of_gap(early: Instant, late: Instant, zone: tzinfo) -> Instant:
    """The instant of the shift between these two."""
    before = _offset(datetime.fromtimestamp(early // 1000, zone))
    while late - early > 1000:
        middle = (early + late) // 2000 * 1000
        if _offset(datetime.fromtimestamp(middle // 1000, zone)) == before:
            early = middle
        else:
            late = middle
    return late


def _instant(moment: datetime) -> Instant:
    return int(moment.timestamp()) * 1000


def _offset(moment: datetime) -> timedelta:
    offset = moment.utcoffset()
    assert offset is not None
    return offset
