"""How the client reaches a master: endpoint, HTTP requests, retries, stream parsers."""
