"""Resolves regions, which are free text, to a country and a point on the globe."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from crawlfleet.scheduling.placement import region_table

EARTH_KM = 6371.0
_MAX_CACHED = 10_000
_ZONES = (re.compile(r"(.*\d)-?[a-z]"), re.compile(r"(.+)-[a-z0-9]"))
"""Patterns of zones, a region and a letter: us-east-1a, europe-west1-b, cn-hangzhou-h."""
# Of these the first letters are a part of the world in the names of clouds, and a country in none of them.
_NO_COUNTRY = frozenset({"af", "me", "sa"})


class Location(NamedTuple):
    country: str
    """ISO code in small letters; empty for a location in no single country."""
    latitude: float
    longitude: float


def normalize_name(name: str) -> str:
    """The form in which names are compared: `US East 1` is `us-east-1`."""
    return re.sub(r"[\s_]+", "-", name.strip().casefold())


def distance_km(one: Location, other: Location) -> float:
    """The distance along the great circle."""
    north, other_north = math.radians(one.latitude), math.radians(other.latitude)
    east = math.radians(other.longitude - one.longitude) / 2
    a = math.sin((other_north - north) / 2) ** 2 + math.cos(north) * math.cos(other_north) * math.sin(east) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(min(1.0, a)))


class Regions:
    """Locations of regions: the built-in names, and those that an installation adds or overrides."""

    def __init__(self, own: Mapping[str, Location] | None = None) -> None:
        self._own = {normalize_name(name): place for name, place in (own or {}).items()}
        self._cached: dict[str, Location | None] = {}

    def find_location(self, name: str) -> Location | None:
        if name not in self._cached:
            # Tasks may name any text: that must not fill the memory.
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[name] = self._resolve(normalize_name(name))
        return self._cached[name]

    def _resolve(self, name: str) -> Location | None:
        wanted = [name, *(zone[1] for pattern in _ZONES if (zone := pattern.fullmatch(name)))]
        for text in wanted:
            if location := self._own.get(text) or _DEFAULT_LOCATIONS.get(text):
                return location
        country, hyphen, _ = name.partition("-")
        return _DEFAULT_LOCATIONS.get(country) if hyphen and len(country) == 2 and country not in _NO_COUNTRY else None


def _rows(text: str) -> Iterator[list[str]]:
    return (entry.split() for line in text.split("\n") for entry in line.split("|") if entry)


def _default_locations() -> dict[str, Location]:
    locations = {name: Location(name, float(north), float(east)) for name, north, east in _rows(region_table.COUNTRIES)}
    locations |= {
        name: Location(country, float(north), float(east)) for name, country, north, east in _rows(region_table.CITIES)
    }
    for name, city in _rows(region_table.CLOUDS):
        locations[name] = locations[city]
    locations |= {name: Location("", float(north), float(east)) for name, north, east in _rows(region_table.CONTINENTS)}
    return locations


_DEFAULT_LOCATIONS = _default_locations()
DEFAULT_REGIONS = Regions()
