"""The crawl engine: it chooses pages (frontier, pacing, robots.txt), fetches them (fetch) and parses them (parse)."""
