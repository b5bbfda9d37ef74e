"""The way of the client to a master: endpoint, HTTP requests, retries, stream parsers."""
