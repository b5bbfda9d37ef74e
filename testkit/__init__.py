"""The test kit: what tests, benches and the simulation are built from."""
