"""The parts of an installation that run it: masters, and what they report of themselves."""
