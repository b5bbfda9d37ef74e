"""Products on pages: the extraction plan, offers, and the conversion of a page to a product."""
