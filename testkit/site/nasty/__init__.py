"""Everything that sites do to crawlers, each behaviour under a path of its own; `behaviour_table.py` lists all."""
