"""Parsing a page: dispatch, the parser process, memory limit, extraction."""
