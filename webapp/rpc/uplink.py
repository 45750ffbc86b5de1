"""Metrics, log lines and checkpoints coming up; a batch is acknowledged when it is in the database."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from django.db import DataError

from platform_core.distribution.content.layout import BY_DIGEST
from platform_core.errors import TrainmasterError
from platform_core.experiments import rich_values
from trainmaster.store import shown
from trainmaster.store.address import parse, url_of
from trainmaster_wire.agent.v1 import uplink_pb2, uplink_pb2_grpc
from webapp.artifacts import queries as artifacts
from webapp.base.traffic import COUNTER
from webapp.checkpoints import services as checkpoints
from webapp.experiments import services as experiments
from webapp.jobs import logs
from webapp.jobs import queries as jobs
from webapp.nodes import services as clusters
from webapp.rpc import spool
from webapp.rpc.bounds import MAX_BIGINT, MAX_INT, UNREADABLE, count, is_id, moment, whole
from webapp.rpc.database import in_database
from webapp.rpc.status import bearer, errors_become_status

if TYPE_CHECKING:
    from webapp.jobs.models import Attempt

log = logging.getLogger(__name__)

_SOURCES = {number: name.lower() for name, number in uplink_pb2.Batch.Source.items()}
_UPLOADS = ("checkpoint", "artifact")  # folders of the store in which agents write


class UplinkServicer(uplink_pb2_grpc.UplinkServicer):
    async def Push(
        self, request_iterator: AsyncIterator[uplink_pb2.Batch], context: Any
    ) -> AsyncIterator[uplink_pb2.Ack]:
        async with errors_become_status(context):
            credential = bearer(context)
            await in_database(clusters.authenticate, credential)
            async for batch in request_iterator:
                yield await in_database(_receive, credential, batch)


def _receive(credential: str, batch: uplink_pb2.Batch) -> uplink_pb2.Ack:
    """A credential that has been revoked since the stream began brings nothing more."""
    ack = _take(clusters.authenticate(credential), batch)
    source = _SOURCES.get(batch.source, "unknown")
    COUNTER.tally("uplink_batches", {f"{source}|{'refused' if ack.error else 'kept'}": 1})
    COUNTER.tally("uplink_bytes", {source: len(batch.data)})
    return ack


def _take(node_id: str, batch: uplink_pb2.Batch) -> uplink_pb2.Ack:
    """Keep one batch. What can never be accepted is answered with an error, so that the agent drops it and goes on."""
    ack = uplink_pb2.Ack(
        attempt_id=batch.attempt_id, rank=batch.rank, source=batch.source, next_offset=batch.next_offset
    )
    attempt = jobs.attempt_on(batch.attempt_id, node_id) if is_id(batch.attempt_id) else None
    if attempt is None:
        ack.error = (
            f"attempt {batch.attempt_id!r:.60} is not, or no longer, one of this node: nothing of it is kept"
        )
        return ack
    try:
        if not _keep(attempt, node_id, batch):
            ack.next_offset = batch.offset  # the agent looks at the store again
    except TrainmasterError as error:
        log.warning("batch of %s refused: %s", batch.attempt_id, error.sentence)
        ack.error = error.sentence
    except (
        DataError,
        *UNREADABLE,
    ) as error:  # it would be refused again and again, with all that waits behind it
        log.warning("batch of %s cannot be kept: %s: %.200s", batch.attempt_id, type(error).__name__, error)
        ack.error = "it cannot be read, or the database cannot keep it"
    return ack


def _keep(attempt: Attempt, node_id: str, batch: uplink_pb2.Batch) -> bool:
    """False: the store lacks files of a checkpoint's part."""
    if max(batch.rank, batch.offset, batch.next_offset) > MAX_BIGINT or batch.rank > MAX_INT:
        why = f"rank {batch.rank} from byte {batch.offset} to {batch.next_offset} is not in any file"
        raise TrainmasterError("request_invalid", what="the batch", why=why)
    match batch.source:
        case uplink_pb2.Batch.LOG:
            text = batch.data.decode(errors="replace")
            logs.ingest(attempt, batch.rank, batch.offset, batch.next_offset, text, moment(batch.at_ms))
        case uplink_pb2.Batch.SPOOL:
            spool.ingest(attempt, node_id, batch.data, rank=batch.rank, end=batch.next_offset)
        case uplink_pb2.Batch.CHECKPOINT:
            uploaded = batch.checkpoint
            if uploaded.format == 2:
                return _part(attempt, node_id, uploaded)
            checkpoints.register(
                job_id=attempt.job_id,
                attempt=attempt.number,
                step=whole(uploaded.step),
                manifest_json=uploaded.manifest_json,
                source_url=_own_place(attempt, uploaded.source_url),
                etags=uploaded.etags,
                metrics=_metrics(uploaded.metrics_json),
                saved_ms=moment(uploaded.saved_at_ms),
                actor=f"node:{node_id}",
            )
        case uplink_pb2.Batch.ARTIFACT:
            artifact = batch.artifact
            experiments.add_artifact(
                attempt.job_id,
                artifact.name,
                manifest_json=artifact.manifest_json,
                source_url=_own_place(attempt, artifact.source_url),
                etags=artifact.etags,
            )
        case uplink_pb2.Batch.VALUE:
            logged = batch.value
            value = rich_values.checked(
                key=logged.key, step=whole(logged.step), index=logged.index, kind=logged.kind,
                at_ms=moment(logged.at_ms), caption=logged.caption, data=batch.data,
            )  # fmt: skip
            experiments.ingest_value(attempt.job_id, attempt.number, value)
        case source:
            raise TrainmasterError("request_invalid", what="the batch", why=f"source {source} is not known")
    return True


def _part(attempt: Attempt, node_id: str, uploaded: uplink_pb2.CheckpointUploaded) -> bool:
    part = checkpoints.PartUploaded(
        step=whole(uploaded.step),
        node_rank=count(uploaded.node_rank),
        nodes=count(uploaded.nodes),
        world_size=count(uploaded.world_size),
        manifest_json=uploaded.manifest_json,
        metrics=_metrics(uploaded.metrics_json),
        saved_ms=moment(uploaded.saved_at_ms),
        began_ms=moment(uploaded.began_at_ms),
        blocking_ms=moment(uploaded.blocking_ms),
        write_ms=moment(uploaded.write_ms),
        emergency=uploaded.emergency,
    )
    place = artifacts.path_in_store(uploaded.source_url)
    if place != f"{_UPLOADS[0]}/{attempt.job_id}/{BY_DIGEST}":
        why = f"it is not where the checkpoints of {attempt.job_id} share files"
        raise TrainmasterError("request_invalid", what=shown(uploaded.source_url), why=why)
    if attempt.job.attempt != attempt.number:
        return True  # a newer attempt runs: the other parts of this one never come
    return checkpoints.register_part(
        job_id=attempt.job_id, attempt=attempt.number, part=part, actor=f"node:{node_id}"
    )


def _own_place(attempt: Attempt, url: str) -> str:
    """The URL in its one spelling: below the folder of this attempt in the platform's store, and nowhere else."""
    parts = artifacts.path_in_store(url).split("/")
    if len(parts) < 4 or parts[0] not in _UPLOADS or parts[1:3] != [attempt.job_id, attempt.id]:
        why = f"it is not below the folder of {attempt.id} in the store"
        raise TrainmasterError("request_invalid", what=shown(url), why=why)
    return url_of(parse(url))


def _metrics(text: str) -> dict[str, Any]:
    try:
        metrics = json.loads(text or "{}")
    except (ValueError, RecursionError):
        metrics = None
    if not isinstance(metrics, dict):
        raise TrainmasterError("request_invalid", what="metrics_json", why="it is no JSON object")
    return metrics
