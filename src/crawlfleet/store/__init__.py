"""The store, which holds the truth: tables, migrations and one module per aggregate; each SQL dialect has its own
folder."""
