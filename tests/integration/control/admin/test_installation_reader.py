"""A scrape of a large installation is quick, and leaves the event loop alone."""

from bench.scrape import NODES, TASK_TYPES, filled_reader, measure_scrapes


async def test_a_thousand_nodes_and_fifty_types_are_scraped_off_the_event_loop() -> None:
    async with filled_reader(NODES, TASK_TYPES, projects=TASK_TYPES) as filled:
        installation = await filled.reader.read_installation()
        assert len(installation.nodes) == NODES
        assert len(installation.by_type) == TASK_TYPES
        figures = await measure_scrapes(filled, 5)
    # docs/performance.md has the figures of a quiet machine; these only end what would be ten times as slow.
    assert figures.lines > 5_000
    assert figures.scrape_ms < 1_000
    assert figures.loop_ms < 30
