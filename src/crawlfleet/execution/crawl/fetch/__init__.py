"""Fetching a page: HTTP client, address guard, proxies, robots.txt, bodies, block detection."""
