"""Products on pages: plans, offers, and reading them."""
