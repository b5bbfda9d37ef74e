"""The HTTP frame around the routes: application, authentication, middleware, errors, bodies and responses."""
