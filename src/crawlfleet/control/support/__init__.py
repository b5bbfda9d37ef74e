"""Parts that several services share: batching, single-flight, broker hints, watchers."""
