"""Tables of projects, their quotas, and what of a day is granted."""
