"""The archive of a crawl over many members: every page once, whoever is lost on the way."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from testkit.factories import Kit
from testkit.site import start_shop
from tests.integration.execution.crawl.shared.spread_kit import Spread
from tests.unit.execution.crawl.crawl_kit import Heard, crawl
from tests.unit.store.store_kit import sqlite_kit


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


def pages(archive: bytes) -> list[str]:
    """Of answers, with revisits."""
    kinds = ("response", "revisit")
    records = ArchiveIterator(io.BytesIO(archive))
    return sorted(one.rec_headers.get_header("WARC-Target-URI") for one in records if one.rec_type in kinds)


@pytest.mark.parametrize(("members", "lose_after"), [(1, None), (3, None), (2, 5)])
async def test_every_page_is_archived_once(kit: Kit, members: int, lose_after: int | None) -> None:
    shop = await start_shop(products=60)
    try:
        asked = {"url": f"{shop.url}/", "depth": 50, "max_pages": 5_000, "concurrency": 16, "archive": "warc"}
        alone = Heard()
        await crawl(asked, alone)
        spread = Spread(kit, asked, members)
        await spread.run(lose_after=lose_after)
        expected = pages(b"".join(alone.records))
        assert len(expected) == len(set(expected)) > 60
        assert pages(await spread.archive()) == expected
        assert (await spread.state()).counts.pages == len(expected)
    finally:
        await shop.close()
