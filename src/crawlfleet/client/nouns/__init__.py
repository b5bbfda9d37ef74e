"""The calls of the async client: one module per noun."""
