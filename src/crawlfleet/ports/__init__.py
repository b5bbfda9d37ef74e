"""Ports: the protocols through which control uses the outside; each docstring is a contract."""
