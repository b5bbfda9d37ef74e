"""Starts of masters hold slots of ids, with the time up to which each slot was used"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_SLOTS = 1024


def upgrade() -> None:
    op.create_table(
        "id_slot",
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("boot", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("slot", name=op.f("pk_id_slot")),
    )
    # Of earlier starts it is not known until when they made ids: until now at most, as no master runs meanwhile.
    op.execute(
        sa.text(
            f"INSERT INTO id_slot (slot, boot, until, turn) SELECT boot % {_SLOTS}, MAX(boot), "
            f"{int(time.time() * 1000)}, MAX(boot) FROM master GROUP BY boot % {_SLOTS}"
        )
    )


def downgrade() -> None:
    op.drop_table("id_slot")
