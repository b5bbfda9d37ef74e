"""`crawlfleet alert`: what fires, rules, channels, silences and notices."""
