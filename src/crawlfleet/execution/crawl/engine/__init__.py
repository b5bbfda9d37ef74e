"""The crawl engine: its plan, pacing, failures, and the items it collects."""
