"""HTTP: routes that parse, call one service and serialise; who may call; how errors are told."""
