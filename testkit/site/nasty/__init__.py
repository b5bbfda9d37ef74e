"""Everything that sites do to crawlers, each under a path of its own. `behaviour_table.py` lists it all."""
