"""A crawl over many nodes, as one member runs it: shared frontier, seeds, page notes."""
