"""Metrics, log lines and checkpoints coming up; a batch is acknowledged when it is in the database."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from django.db import DataError

from platform_core.errors import TrainmasterError
from trainmaster_wire.agent.v1 import uplink_pb2, uplink_pb2_grpc
from webapp.checkpoints import services as checkpoints
from webapp.clusters import services as clusters
from webapp.experiments import services as experiments
from webapp.jobs import logs
from webapp.jobs import queries as jobs
from webapp.rpc import spool
from webapp.rpc.database import in_database
from webapp.rpc.status import bearer, errors_become_status

if TYPE_CHECKING:
    from webapp.jobs.models import Attempt

log = logging.getLogger(__name__)


class UplinkServicer(uplink_pb2_grpc.UplinkServicer):
    async def Push(
        self, request_iterator: AsyncIterator[uplink_pb2.Batch], context: Any
    ) -> AsyncIterator[uplink_pb2.Ack]:
        async with errors_become_status(context):
            node_id = await in_database(clusters.authenticate, bearer(context))
            async for batch in request_iterator:
                yield await in_database(_take, node_id, batch)


def _take(node_id: str, batch: uplink_pb2.Batch) -> uplink_pb2.Ack:
    """Keep one batch. What can never be accepted is answered with an error, so that the agent drops it and goes on."""
    ack = uplink_pb2.Ack(
        attempt_id=batch.attempt_id, rank=batch.rank, source=batch.source, next_offset=batch.next_offset
    )
    attempt = jobs.attempt_on(batch.attempt_id, node_id)
    if attempt is None:
        ack.error = f"attempt {batch.attempt_id} was never placed on this node"
        return ack
    try:
        _keep(attempt, node_id, batch)
    except TrainmasterError as error:
        log.warning("batch of %s refused: %s", batch.attempt_id, error.sentence)
        ack.error = error.sentence
    except DataError as error:  # it would be refused again and again, with all that waits behind it
        log.exception("batch of %s cannot be kept", batch.attempt_id, exc_info=error)
        ack.error = "the database cannot keep it"
    return ack


def _keep(attempt: Attempt, node_id: str, batch: uplink_pb2.Batch) -> None:
    match batch.source:
        case uplink_pb2.Batch.LOG:
            text = batch.data.decode(errors="replace")
            logs.ingest(attempt, batch.rank, batch.offset, batch.next_offset, text, batch.at_ms)
        case uplink_pb2.Batch.SPOOL:
            spool.ingest(attempt, node_id, batch.data)
        case uplink_pb2.Batch.CHECKPOINT:
            uploaded = batch.checkpoint
            checkpoints.register(
                job_id=attempt.job_id,
                attempt=attempt.number,
                step=uploaded.step,
                manifest_json=uploaded.manifest_json,
                source_url=uploaded.source_url,
                etags=uploaded.etags,
                metrics=json.loads(uploaded.metrics_json or "{}"),
                saved_ms=uploaded.saved_at_ms,
                actor=f"node:{node_id}",
            )
        case uplink_pb2.Batch.ARTIFACT:
            artifact = batch.artifact
            experiments.add_artifact(
                attempt.job_id,
                artifact.name,
                manifest_json=artifact.manifest_json,
                source_url=artifact.source_url,
                etags=artifact.etags,
            )
