"""Alerts: the rules, channels and silences that people set, and what each rule measures."""
