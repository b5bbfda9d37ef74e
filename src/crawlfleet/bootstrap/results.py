"""Opens the place of the results by its address, and checks that it belongs to this installation.

Masters with different places would each find only their part of the results. The address alone does not show this: one
shared folder may have a different name on each machine, and one name may be a different folder on each. So the place
carries a mark, made when the installation first used it, and the store keeps that mark. Results that are moved take
their mark along.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import NamedTuple

import structlog

from crawlfleet.bootstrap.brokers import is_memory
from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.ports.admin_store import ConfigStore
from crawlfleet.ports.chunk_store import MARK, ChunkStore, ResultsPlace
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.settings.master import MasterSettings

log = structlog.get_logger()

FACT = "results"
_S3 = "s3://"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0


class KnownPlace(NamedTuple):
    """The place as the store has it: its mark, and the address that it had for the master that made the mark."""

    mark: str
    address: str


async def open_results(settings: MasterSettings, store: ConfigStore) -> ChunkStore:
    """Open the place of the results. Raises ConfigError for a place that belongs to another installation, or that
    cannot be used as it was set."""
    address, is_only_master = settings.results, is_memory(settings.broker)
    if not is_only_master and Path(address).is_relative_to(settings.data_dir):
        log.warning("results_in_data_dir", results=address, hint="masters on other machines need a place all share")
    place = open_place(address)
    mark = await _mark_when_there(place, store, address, is_only_master)
    if mark is None:
        return place
    stored = _parse_fact(await store.keep_fact(FACT, f"{mark} {address}"))
    assert stored is not None
    if stored.mark != mark:
        raise _wrong_place_error(address, stored)
    return place


async def _mark_when_there(place: ResultsPlace, store: ConfigStore, address: str, is_only_master: bool) -> str | None:
    """Return the mark of the place, or None for a place that cannot be reached and is known by this address: the start
    does not wait for it."""
    installation = await store.installation_id()
    pause_s = _FIRST_PAUSE_S
    while True:
        known_place = _parse_fact(await store.find_fact(FACT))
        try:
            return await _load_or_set_mark(place, installation, known_place, address, is_only_master)
        except Unavailable as exc:
            if known_place is not None and known_place.address == address:
                # Work that leaves no results need not wait for the place; a node keeps what it cannot put.
                log.warning("results_away", results=address, error=str(exc))
                return None
            log.warning("results_away", results=address, error=str(exc), again_in_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def open_place(address: str) -> ResultsPlace:
    if not address.startswith(_S3):
        return FolderChunks(Path(address))
    # Imported here, so that only masters that use a bucket pay for loading it.
    from crawlfleet.results.chunk_bucket import ObjectChunks

    return ObjectChunks(address, os.environ)


async def _load_or_set_mark(
    place: ResultsPlace, installation: str, known_place: KnownPlace | None, address: str, is_only_master: bool
) -> str:
    """Return the mark of the place; a new one where neither the place nor the store has any."""
    mark = await place.mark()
    if mark is None and known_place is not None:
        if not (is_only_master and known_place.address == address):
            raise _wrong_place_error(address, known_place)
        # No other master can have the results elsewhere: they were removed, or this master has moved.
        log.warning("results_are_gone", results=address)
        await place.set_mark(known_place.mark, is_replacing=True)
        return known_place.mark
    if mark is None:
        await place.set_mark(f"{installation}-{secrets.token_hex(8)}")
        mark = await place.mark()
    owner, dash, _ = (mark or "").partition("-")
    if not dash or " " in (mark or ""):
        raise ConfigError(f"results: the mark {MARK} in {address} is damaged")
    if owner != installation:
        raise ConfigError(f"results: {address} belongs to the installation {owner}, and this one is {installation}")
    assert mark is not None
    return mark


def _parse_fact(fact: str | None) -> KnownPlace | None:
    if fact is None:
        return None
    mark, _, address = fact.partition(" ")
    return KnownPlace(mark, address)


def _wrong_place_error(address: str, known_place: KnownPlace) -> ConfigError:
    return ConfigError(
        f"results: {address} is not where this installation keeps its results (first used as {known_place.address}): "
        f"every master needs the same shared folder or s3://BUCKET/PREFIX. Moved results need their file {MARK}"
    )
