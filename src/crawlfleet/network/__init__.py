"""Network: which addresses this process may connect to, for crawls and for notices alike."""
