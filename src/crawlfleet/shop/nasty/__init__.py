"""Everything that sites do to crawlers, each under a path of its own. `table.py` lists it all."""
