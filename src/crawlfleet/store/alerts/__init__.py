"""Alerts: states, configuration by people, and notices on their way."""
