"""The frontier decides which URLs are fetched: link filter, follow rules, scope, traps, sitemaps."""
