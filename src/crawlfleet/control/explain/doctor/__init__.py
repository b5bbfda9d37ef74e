"""The doctor: it collects a snapshot of the installation, part by part, and runs the checks over it."""
