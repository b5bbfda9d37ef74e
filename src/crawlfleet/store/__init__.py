"""Truth: tables, migrations, one file per aggregate; what differs by dialect in its own folder."""
