"""Alerts: rules, states, silences and channels."""
