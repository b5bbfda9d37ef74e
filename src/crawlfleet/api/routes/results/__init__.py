"""Routes about results: items, exports, quality, products."""
