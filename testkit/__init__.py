"""The test kit: the building blocks of tests, benchmarks and the simulation."""
