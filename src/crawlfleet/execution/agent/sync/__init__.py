"""The sync call of a node: session, transport to masters, commands that come back, reports that go up."""
