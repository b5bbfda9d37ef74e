"""HTTP: routes that parse, call one service and serialise; who may call; how errors are told.

From the top down: `app` puts the routes together, `routes` has them by noun, `views` is how things are shown, `http` is
what every route needs.
"""
