"""The crawl engine: which page next (frontier, pace, robots), fetching it (fetch, addresses), reading it (page)."""
