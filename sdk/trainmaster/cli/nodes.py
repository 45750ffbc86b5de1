"""`trainmaster nodes`."""

from __future__ import annotations

import click

from trainmaster.cli import output
from trainmaster.cli.session import connect


@click.command()
@output.as_json
def nodes(as_json: bool) -> None:
    """List the nodes of the cluster."""
    with connect() as client:
        found = client.nodes()
    if as_json:
        output.dump(found)
        return
    output.table(
        ("HOSTNAME", "ID", "RACK", "STATE", "SLOTS", "IN USE", "TYPE", "WHY"),
        [
            (one.hostname, one.id, one.rack, one.state, one.slots, one.slots_in_use, one.gpu_type, one.reason)
            for one in found
        ],
        empty="No nodes have joined yet. On a node: trainmaster agent --server … --token …",
    )
