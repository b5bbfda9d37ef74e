"""Which URLs are fetched: the frontier, link filters, rules, scope, traps, sitemaps."""
