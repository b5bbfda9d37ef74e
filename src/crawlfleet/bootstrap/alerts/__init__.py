"""Alerts of a master: their parts, their settings, the certificate they watch."""
