"""The PostgreSQL engine: a connection pool, with batches sent as arrays or by COPY."""
