"""What control needs from the outside: small protocols, the contract in the docstring."""
