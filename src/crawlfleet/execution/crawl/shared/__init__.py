"""One crawl over many nodes, as a member runs it: shared frontier, seeds, page notes."""
