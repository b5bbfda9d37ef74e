"""PostgreSQL: a pool, arrays in and COPY."""
