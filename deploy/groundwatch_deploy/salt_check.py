"""Whether the salt of the hash is the one that this database's traces were decided with.

A salt that was lost and made anew would choose other traces under the same version, and a trace that comes twice
could be decided both ways. The ledger has the number of every trace, so the salt can be tried.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sqlalchemy import Engine, select

from groundwatch_collector import sampling
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import ledger
from groundwatch_deploy.config import ConfigError, ServerConfig
from groundwatch_deploy.demo.sampling_rates import SALT_OF_THE_DEMO


def refuse_own_salt(server: ServerConfig, environ: Mapping[str, str] = os.environ) -> None:
    """Raise :class:`ConfigError` where a collector of several would make a salt that the others do not know.

    Each would draw another sample, and nobody could see it: on an empty ledger there is nothing to compare with.
    """
    if not environ.get("GROUNDWATCH_SAMPLING_SALT") and not (server.data_directory / "sampling.salt").exists():
        raise ConfigError(
            "environment variable GROUNDWATCH_SAMPLING_SALT: not set; collectors on Kafka must share one salt. "
            "Accepted: 32 to 128 hex digits, the same for all (`openssl rand -hex 32`), or sampling.salt in the data "
            "directory"
        )


def refuse_another_salt(engine: Engine, salt: bytes, salt_version: int) -> None:
    """Raise :class:`ConfigError` where the ledger was written with another salt of the same version."""
    newest = (
        select(ledger.c.trace_id, ledger.c.u56)
        .where(ledger.c.salt_version == salt_version)
        .order_by(ledger.c.started_at.desc())  # indexed
        .limit(1)
    )
    with reader(engine).connect() as connection:
        row = connection.execute(newest).one_or_none()
    if row is None or sampling.u56(row.trace_id, salt) == row.u56:
        return
    if sampling.u56(row.trace_id, bytes.fromhex(SALT_OF_THE_DEMO)) == row.u56:
        raise ConfigError(
            "this is data of `groundwatch demo`, whose traffic is made up and whose salt everybody knows: give your "
            "own traffic another --data-dir. To look at the demo's again: "
            f"GROUNDWATCH_SAMPLING_SALT={SALT_OF_THE_DEMO} groundwatch serve --data-dir ..."
        )
    raise ConfigError(
        f"[decide] salt_version: {salt_version}, but the ledger has traces of this version that were drawn with "
        "another sampling salt; put back sampling.salt in the data directory (or GROUNDWATCH_SAMPLING_SALT), or "
        "set a salt_version that was never used"
    )
