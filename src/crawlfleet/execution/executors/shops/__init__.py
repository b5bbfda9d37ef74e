"""The shop family: crawling products, and the steps of a sync."""
