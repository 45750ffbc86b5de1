"""The one catalogue of errors: gRPC status, HTTP problem document and the page's sentence come from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """`sentence` is a template over the error's numbers; docs/reference/errors.md has a heading for each code."""

    code: str
    http: int
    grpc: str  # name of a grpc.StatusCode
    title: str
    sentence: str


_KINDS = (
    ErrorKind(
        "spec_invalid", 422, "INVALID_ARGUMENT", "The job description is not valid",
        "The job description is not valid: {problems}",
    ),
    ErrorKind(
        "sweep_invalid", 422, "INVALID_ARGUMENT", "The sweep is not valid",
        "The sweep is not valid: {problems}",
    ),
    ErrorKind(
        "suite_invalid", 422, "INVALID_ARGUMENT", "The evaluation suite is not valid",
        "The evaluation suite is not valid: {problems}",
    ),
    ErrorKind(
        "policy_invalid", 422, "INVALID_ARGUMENT", "The retraining policy is not valid",
        "The retraining policy is not valid: {problems}",
    ),
    ErrorKind(
        "retraining_held", 409, "FAILED_PRECONDITION", "The limits of the policy allow no retraining now",
        "{model} is not retrained now: {reasons}.",
    ),
    ErrorKind(
        "plan_invalid", 422, "INVALID_ARGUMENT", "The question to the planner is not valid",
        "The question is not valid: {problems}",
    ),
    ErrorKind(
        "request_invalid", 400, "INVALID_ARGUMENT", "The request is not valid",
        "{what} is not valid: {why}",
    ),
    ErrorKind(
        "filter_invalid", 400, "INVALID_ARGUMENT", "The filter is not valid",
        "not valid at character {position}: {reason}",
    ),
    ErrorKind(
        "quota_exceeded", 409, "RESOURCE_EXHAUSTED", "The quota is too small",
        "would exceed quota: {wanted}/{maximum} GPUs of {gpu_type}",
    ),
    ErrorKind(
        "guarantee_too_large", 409, "FAILED_PRECONDITION", "The cluster cannot guarantee this",
        "{team} cannot be guaranteed {wanted} {gpu_type} slots: the cluster has {slots}, {others} of them guaranteed "
        "to other teams; at most {most}",
    ),
    ErrorKind(
        "cannot_ever_fit", 422, "FAILED_PRECONDITION", "The cluster can never run this",
        "needs {wanted} GPUs of {gpu_type}; the whole cluster has {total}",
    ),
    ErrorKind(
        "not_found", 404, "NOT_FOUND", "Not found",
        "There is no {what} you may see",
    ),
    ErrorKind(
        "ambiguous_job", 409, "FAILED_PRECONDITION", "Several jobs match",
        "{reference} may be any of {candidates}; use more of the id, or TEAM/NAME",
    ),
    ErrorKind(
        "not_allowed", 403, "PERMISSION_DENIED", "Not allowed",
        "You may not {what}; ask {whom}",
    ),
    ErrorKind(
        "priority_too_urgent", 403, "PERMISSION_DENIED", "The priority is too urgent",
        "priority {priority} is more urgent than {limit}, the most urgent that {who} may use; ask {whom}",
    ),
    ErrorKind(
        "not_authenticated", 401, "UNAUTHENTICATED", "Log in first",
        "Log in, or send an API token that has not expired",
    ),
    ErrorKind(
        "stale_version", 409, "ABORTED", "Changed in the meantime",
        "{what} has changed since you opened it (version {seen}); reload it and try again",
    ),
    ErrorKind(
        "gate_refused", 409, "FAILED_PRECONDITION", "The gate of the model does not let it through",
        "{version} may not {what}: {reasons}",
    ),
    ErrorKind(
        "illegal_transition", 409, "FAILED_PRECONDITION", "Not possible in this state",
        "{subject} is {state}; {event} is not possible now",
    ),
    ErrorKind(
        "idempotency_conflict", 409, "ALREADY_EXISTS", "The idempotency key was used for something else",
        "The idempotency key {key} belongs to another request; use a new key",
    ),
    ErrorKind(
        "duplicate_name", 409, "ALREADY_EXISTS", "The name is taken",
        "{what} {name} exists already; choose another name",
    ),
    ErrorKind(
        "department_in_use", 409, "FAILED_PRECONDITION", "The department is not empty",
        "Department {department} still has {inside}; move them elsewhere first",
    ),
    ErrorKind(
        "team_in_use", 409, "FAILED_PRECONDITION", "The team has jobs that have not ended",
        "Team {team} still has {jobs}; cancel them or let them end, then archive the team",
    ),
    ErrorKind(
        "secret_unknown", 422, "INVALID_ARGUMENT", "The team has no such secret",
        "Team {team} has no secret {name}; a member adds it on the team's page",
    ),
    ErrorKind(
        "secret_in_use", 409, "FAILED_PRECONDITION", "The secret is in use",
        "Secret {name} is used by {jobs}; cancel them or let them end, or set the secret to another value",
    ),
    ErrorKind(
        "dataset_in_use", 409, "FAILED_PRECONDITION", "The version of the dataset is in use",
        "{name} version {version} is read by {jobs}; cancel them or let them end, then delete it",
    ),
    ErrorKind(
        "serving_target_in_use", 409, "FAILED_PRECONDITION", "The serving target is in use",
        "Serving target {name} is asked for by {what}; change the gates and let the jobs end, then delete it",
    ),
    ErrorKind(
        "node_unknown", 404, "NOT_FOUND", "Unknown node",
        "Node {node} is not known here; join it with a bootstrap token",
    ),
    ErrorKind(
        "credential_invalid", 401, "UNAUTHENTICATED", "The credential is wrong",
        "The node's credential is not known here; join the node again with a new bootstrap token",
    ),
    ErrorKind(
        "credential_revoked", 401, "UNAUTHENTICATED", "The credential was revoked",
        "The credential of node {node} was revoked; an operator can let it join again",
    ),
    ErrorKind(
        "node_alive", 409, "FAILED_PRECONDITION", "The node is alive",
        "{node} has joined already and its agent is alive; stop that agent, or start with an empty data folder",
    ),
    ErrorKind(
        "rejoin_refused", 409, "FAILED_PRECONDITION", "The node cannot join again with a token alone",
        "{node} has joined before; start it with its earlier data folder, or ask an operator to press "
        "\"Let it join again\" on its page",
    ),
    ErrorKind(
        "node_lost", 409, "ABORTED", "The node is lost",
        "{node} sent no heartbeat for too long and is lost; its agent has to connect again",
    ),
    ErrorKind(
        "session_replaced", 409, "ABORTED", "Another session has begun",
        "A newer session of {node} has begun; this one has ended",
    ),
    ErrorKind(
        "bootstrap_token_invalid", 401, "UNAUTHENTICATED", "The bootstrap token is not valid",
        "The bootstrap token is unknown, revoked or expired; ask an operator for a new one",
    ),
    ErrorKind(
        "manifest_invalid", 422, "INVALID_ARGUMENT", "The manifest is not valid",
        "The manifest is not valid: {why}",
    ),
    ErrorKind(
        "verification_failed", 422, "DATA_LOSS", "The bytes are damaged",
        "{path} does not have the SHA-256 of its manifest, so these bytes are not used",
    ),
    ErrorKind(
        "file_unreadable", 422, "INVALID_ARGUMENT", "The file cannot be read",
        "{what} cannot be read: {why}",
    ),
    ErrorKind(
        "disk_full", 507, "RESOURCE_EXHAUSTED", "Not enough disk space",
        "Node {node} needs {needed} on {path} and has {free}; free some space and retry",
    ),
    ErrorKind(
        "source_unavailable", 502, "UNAVAILABLE", "The source cannot be read",
        "{source} cannot be read: {why}",
    ),
    ErrorKind(
        "source_changed", 409, "FAILED_PRECONDITION", "The source was changed",
        "{source} was changed {since}: the store called it {then} and calls it {now} now; register it anew",
    ),
    ErrorKind(
        "upload_incomplete", 409, "FAILED_PRECONDITION", "The upload is not complete",
        "Upload {upload} still lacks {missing} file(s); send them, then complete it",
    ),
    ErrorKind(
        "too_large", 413, "OUT_OF_RANGE", "Too large",
        "{what} has {size}; the limit is {limit}",
    ),
    ErrorKind(
        "too_slow", 408, "DEADLINE_EXCEEDED", "The request came too slowly",
        "The body of the request stopped coming, or came too slowly; send it again over a better line",
    ),
    ErrorKind(
        "address_too_long", 414, "OUT_OF_RANGE", "The address is too long",
        "The {what} of the address has {size}; the limit is {limit}",
    ),
    ErrorKind(
        "rate_limited", 429, "RESOURCE_EXHAUSTED", "Too many requests",
        "More than {limit} requests in {period}; try again in {retry_after}",
    ),
    ErrorKind(
        "unavailable", 503, "UNAVAILABLE", "Temporarily unavailable",
        "{what} is not available just now; try again shortly",
    ),
    ErrorKind(
        "internal", 500, "INTERNAL", "Something went wrong on our side",
        "Something went wrong on our side; it is logged under {reference}",
    ),
)  # fmt: skip

CATALOGUE: dict[str, ErrorKind] = {kind.code: kind for kind in _KINDS}


class _Gaps(dict[str, object]):
    """Fills a number that the raiser left out, so that it does not hide the error itself."""

    def __missing__(self, key: str) -> str:
        return "?"


class TrainmasterError(Exception):
    """An expected refusal: `TrainmasterError("not_found", what="job job-…")`.

    `sentence` replaces the template of the catalogue where the raiser knows better words.
    """

    def __init__(self, code: str, sentence: str = "", **numbers: object) -> None:
        if code not in CATALOGUE:
            raise ValueError(f"error code {code!r} is not in the catalogue of platform_core.errors")
        self.code = code
        self.numbers: dict[str, object] = numbers
        self.sentence = sentence or CATALOGUE[code].sentence.format_map(_Gaps(numbers))
        super().__init__(self.sentence)

    @property
    def kind(self) -> ErrorKind:
        return CATALOGUE[self.code]

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r}, {self.sentence!r})"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Celery, executors); the default would call __init__ with the sentence.
        return (_restored, (type(self), self.args, dict(self.__dict__)))


def _restored(kind: type[TrainmasterError], args: tuple[object, ...], state: Mapping[str, object]) -> object:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class IllegalTransition(TrainmasterError):
    """A machine got an event that is illegal in its state. `sentence` says what was tried on what."""

    def __init__(self, subject: str, state: str, event: str, sentence: str = "") -> None:
        super().__init__("illegal_transition", sentence, subject=subject, state=state, event=event)
