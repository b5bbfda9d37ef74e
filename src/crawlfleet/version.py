"""The version of crawlfleet."""

__version__ = "0.1.0"
