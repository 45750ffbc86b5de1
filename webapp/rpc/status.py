"""The gRPC face of the error catalogue."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from platform_core.errors import TrainmasterError

log = logging.getLogger(__name__)


@asynccontextmanager
async def errors_become_status(context: Any) -> AsyncIterator[None]:
    """A catalogued error ends the call with its status, sentence and code; any other is logged and stays hidden."""
    try:
        yield
    except TrainmasterError as error:
        code = grpc.StatusCode[error.kind.grpc]
        await context.abort(code, error.sentence, (("error-code", error.code),))
    except (grpc.aio.AbortError, grpc.RpcError):
        raise
    except Exception:
        log.exception("unexpected error in a call")
        await context.abort(grpc.StatusCode.INTERNAL, "Something went wrong on our side. It has been logged.")


def bearer(context: Any) -> str:
    """The credential in the call's metadata; empty when there is none."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and value.startswith("Bearer "):
            return str(value.removeprefix("Bearer "))
    return ""
