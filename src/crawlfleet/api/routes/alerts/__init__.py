"""Alerts: what fires, rules, channels, silences and notices."""
