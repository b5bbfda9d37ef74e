"""JSON schemas of a crawl's parameters."""
