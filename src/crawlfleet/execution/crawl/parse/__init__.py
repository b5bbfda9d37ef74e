"""Parsing of pages: dispatch, the parser process, the memory limit, extraction."""
