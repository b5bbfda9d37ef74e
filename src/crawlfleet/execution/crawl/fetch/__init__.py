"""Fetching of pages: HTTP client, address guard, proxies, robots.txt, body decoding, block detection."""
