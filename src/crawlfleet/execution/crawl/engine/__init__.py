"""The crawl engine runs one crawl: its plan, pacing, failures, and the items it collects."""
