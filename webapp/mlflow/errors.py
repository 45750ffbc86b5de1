"""MLflow's errors: a code, the HTTP status that belongs to it, a sentence. Ours are translated by one table."""

from django.http import JsonResponse

from platform_core.errors import TrainmasterError

STATUS = {
    "INTERNAL_ERROR": 500,
    "NOT_IMPLEMENTED": 501,
    "TEMPORARILY_UNAVAILABLE": 503,
    "REQUEST_LIMIT_EXCEEDED": 429,
    "RESOURCE_CONFLICT": 409,
    "ENDPOINT_NOT_FOUND": 404,
    "RESOURCE_DOES_NOT_EXIST": 404,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "BAD_REQUEST": 400,
    "RESOURCE_ALREADY_EXISTS": 400,
    "INVALID_PARAMETER_VALUE": 400,
    "INVALID_STATE": 409,  # MLflow answers 500, which its client tries again: no fault of this server
}

# Codes of platform_core.errors with another meaning than their HTTP status says; the rest goes by status.
_CODES = {
    "duplicate_name": "RESOURCE_ALREADY_EXISTS",
    "idempotency_conflict": "RESOURCE_ALREADY_EXISTS",
    "not_found": "RESOURCE_DOES_NOT_EXIST",
    "illegal_transition": "INVALID_PARAMETER_VALUE",
    "gate_refused": "INVALID_STATE",
    "too_large": "INVALID_PARAMETER_VALUE",
    "source_changed": "RESOURCE_CONFLICT",
}
_BY_STATUS = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    408: "TEMPORARILY_UNAVAILABLE",
    409: "RESOURCE_CONFLICT",
    422: "INVALID_PARAMETER_VALUE",
    429: "REQUEST_LIMIT_EXCEEDED",
    502: "TEMPORARILY_UNAVAILABLE",
    503: "TEMPORARILY_UNAVAILABLE",
    507: "TEMPORARILY_UNAVAILABLE",
}


# What clients classify errors by: beside the code, its class and the state of SQL that stands for it.
_CLASSES = {
    "RESOURCE_DOES_NOT_EXIST": "RESOURCE_NOT_FOUND",
    "ENDPOINT_NOT_FOUND": "RESOURCE_NOT_FOUND",
    "RESOURCE_ALREADY_EXISTS": "RESOURCE_ALREADY_EXISTS",
    "INVALID_PARAMETER_VALUE": "INVALID_PARAMETER_VALUE",
    "BAD_REQUEST": "INVALID_PARAMETER_VALUE",
}


class MlflowError(Exception):
    """An answer of the MLflow API that is not a success."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def response(self) -> JsonResponse:
        body = {"error_code": self.code, "message": self.message}
        if known := _CLASSES.get(self.code):
            body |= {"error_class": known, "sqlstate": "KAM00"}
        return JsonResponse(body, status=STATUS[self.code])


def invalid(message: str) -> MlflowError:
    return MlflowError("INVALID_PARAMETER_VALUE", message)


def missing(message: str) -> MlflowError:
    return MlflowError("RESOURCE_DOES_NOT_EXIST", message)


def exists(message: str) -> MlflowError:
    return MlflowError("RESOURCE_ALREADY_EXISTS", message)


def translated(error: TrainmasterError, status: int) -> MlflowError:
    """`status` is the error's in our own catalogue."""
    code = _CODES.get(error.code) or _BY_STATUS.get(status, "INTERNAL_ERROR")
    return MlflowError(code, error.sentence)
