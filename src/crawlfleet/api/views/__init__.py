"""Response bodies: one module of views per noun."""
