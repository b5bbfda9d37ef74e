"""Splitting work: URL batches of one crawl over many nodes, shards of a task, changes of products."""
