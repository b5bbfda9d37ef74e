"""`python -m crawlfleet.cli`."""

from crawlfleet.cli.app import main

main()
