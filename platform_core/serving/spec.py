"""What a user asks of an endpoint: one frozen value that is either sound or was never made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from platform_core.cluster.gpu_shares import larger, shares_of
from platform_core.jobs.fields import described, load_fields, plain_fields, read_fields, schema_of
from platform_core.jobs.kinds import choice, line, size, slug, truth, whole, words
from platform_core.jobs.reader import Problem, Reader, SpecError, shown
from platform_core.jobs.urgency import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT
from platform_core.serving.autoscaling import MOST_REPLICAS, ScalingPolicy
from platform_core.serving.batching import BatchLimits
from platform_core.serving.collection import Consent
from platform_core.serving.runtimes import COMPILES, RuntimeName
from platform_core.units import MINUTE_MS

MOST_IDLE_MINUTES = 7 * 24 * 60
MOST_REDACTED = 100
MOST_SLICED = 4
MOST_PURPOSES = 8
MOST_GPUS = 64  # of a replica: they are on one node


def _names(field: str, most: int) -> Callable[[Reader], tuple[str, ...]]:
    def read_names(read: Reader) -> tuple[str, ...]:
        names = read.words(field)
        if len(names) > most or any(not 0 < len(name) <= 200 for name in names):
            read.say(field, f"must have at most {most} names of 1 to 200 characters")
        return names

    return read_names


class Section(StrEnum):
    MODEL = "Model"
    RESOURCES = "Resources"
    SCALING = "Scaling"
    REQUESTS = "Requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSpec:
    """Made by `parse`, which refuses bad values, all of them at once."""

    name: str = described(
        line(60, required="give it a name", pattern=r"[a-z0-9][a-z0-9-]*", words="small letters, digits and dashes"),
        "Name", "Part of its address; one in a team.", Section.MODEL, example="mlp",
    )  # fmt: skip
    team: str = described(
        slug(60, "the team's short name, such as vision", required="name the team that serves"),
        "Team", "Whose model, quota and members.", Section.MODEL,
    )  # fmt: skip
    model: str = described(
        line(120, required="name a model of the team", pattern=r"\S+", words="the name of a model of the team"),
        "Model", "A registered model of the team.", Section.MODEL, example="mlp",
    )  # fmt: skip
    version: int = described(
        whole(0, 1_000_000),
        "Version",
        "The version to serve; 0: the newest that is ready.",
        Section.MODEL,
        default=0,
    )
    alias: str = described(
        line(255, pattern=r"[\w-]+", words="letters, digits, _ and -"), "Alias",
        "Serve the version of this alias, and try another one as a canary when the alias moves to it.",
        Section.MODEL, default="", example="champion",
    )  # fmt: skip
    runtime: RuntimeName = described(  # noqa: RUF009
        choice(RuntimeName), "Runtime", "How the files are loaded; auto: by their names.", Section.MODEL,
        default=RuntimeName.AUTO,
    )  # fmt: skip
    entry: str = described(
        line(200, pattern=r"[\w./:-]+", words="module:name or a file of the model"),
        "Entry", "module:name of a class, or the file to load.", Section.MODEL, default="", example="model:Model",
    )  # fmt: skip
    code: str = described(
        line(40, pattern=r"man-[0-9a-z]+", words="the id of an uploaded code bundle, man-…"),
        "Code", "The files that the entry comes from, if not from the model.", Section.MODEL, default="",
    )  # fmt: skip
    compile: bool = described(
        truth(), "Compile", "By torch.compile, for runtime eager or exported; the first batches take longer.",
        Section.MODEL, default=False,
    )  # fmt: skip
    gpu_type: str = described(
        slug(60, "a type's short name, such as cpu", required="name a type of the cluster, such as cpu"),
        "GPU type", "cpu takes CPU slots instead of GPUs.", Section.RESOURCES, example="cpu",
    )  # fmt: skip
    gpus: int = described(
        whole(1, MOST_GPUS), "GPUs per replica",
        "On one node. With more than one, a process on each GPU has its part of the model.", Section.RESOURCES,
        default=1,
    )  # fmt: skip
    cpus: int = described(
        whole(0, 256), "CPUs", "CPU cores for each GPU of a replica; 0: a GPU's share of its node.",
        Section.RESOURCES, default=0,
    )  # fmt: skip
    memory_bytes: int = described(
        size(), "Memory", "Main memory for each GPU of a replica, with a unit; 0: a GPU's share of its node.",
        Section.RESOURCES, default=0, name="memory_per_gpu", example="4GiB",
    )  # fmt: skip
    priority: int = described(
        whole(MOST_URGENT, LEAST_URGENT), "Priority", "Of its replicas in the queue; 0 goes first.",
        Section.RESOURCES, default=DEFAULT_PRIORITY,
    )  # fmt: skip
    min_replicas: int = described(
        whole(0, MOST_REPLICAS), "Minimum replicas", "0: it scales to zero when nobody asks.", Section.SCALING,
        default=1,
    )  # fmt: skip
    max_replicas: int = described(
        whole(1, MOST_REPLICAS), "Maximum replicas", "It never has more.", Section.SCALING, default=1
    )
    target_concurrency: int = described(
        whole(1, 10_000), "Target concurrency", "Requests at once in a replica.", Section.SCALING, default=8
    )
    target_latency_ms: int = described(
        whole(0, 3_600_000), "Target latency (ms)", "A greater p99 asks for one more replica; 0: no target.",
        Section.SCALING, default=0,
    )  # fmt: skip
    idle_minutes: int = described(
        whole(1, MOST_IDLE_MINUTES), "Idle minutes", "Without a request, before it scales to zero.",
        Section.SCALING, default=5,
    )  # fmt: skip
    max_batch: int = described(
        whole(1, 4_096), "Maximum batch", "Rows that run together.", Section.REQUESTS, default=32
    )
    max_tokens: int = described(
        whole(0, 10_000_000), "Maximum tokens", "Of a padded batch; 0: no bound.", Section.REQUESTS, default=0
    )
    queue: int = described(
        whole(1, 100_000), "Queue", "Requests that may wait in a replica; further ones get 429.", Section.REQUESTS,
        default=256,
    )  # fmt: skip
    retry: bool = described(
        truth(), "Retry", "A request that a replica lost is sent to another: answering it twice does no harm.",
        Section.REQUESTS, default=True,
    )  # fmt: skip
    rate_limit: int = described(
        whole(0, 10_000_000), "Rate limit", "Requests a minute of each caller; 0: no limit.", Section.REQUESTS,
        default=0,
    )  # fmt: skip

    cache_seconds: int = described(
        whole(0, 86_400), "Cache (s)",
        "Equal predictions are answered from a router's memory for so long; 0: never. For deterministic models.",
        Section.REQUESTS, default=0,
    )  # fmt: skip
    sample_percent: int = described(
        whole(0, 100), "Sampled answers (%)",
        "Part of its answers whose features are kept to look for drift; 0: none.", Section.REQUESTS, default=0,
    )  # fmt: skip
    redact: tuple[str, ...] = described(
        words(_names("redact", MOST_REDACTED), MOST_REDACTED), "Redacted features",
        "Names of inputs and outputs of which nothing is kept.", Section.REQUESTS, default=(), example="age",
    )  # fmt: skip
    collect_for: tuple[str, ...] = described(
        words(_names("collect_for", MOST_PURPOSES), MOST_PURPOSES), "Collected for",
        "Purposes for which sampled requests and answers are kept as a dataset; none: they are not.", Section.REQUESTS,
        default=(), example="training",
    )  # fmt: skip
    collect_days: int = described(
        whole(1, 365),
        "Collected (days)",
        "How long a collected request is kept.",
        Section.REQUESTS,
        default=30,
    )
    ask_consent: bool = described(
        truth(), "Ask for consent",
        "Only requests are collected whose X-Consent names every purpose; off: all but those that forbid it.",
        Section.REQUESTS, default=True,
    )  # fmt: skip
    slices: tuple[str, ...] = described(
        words(_names("slices", MOST_SLICED), MOST_SLICED), "Slices",
        "Names of inputs and outputs by whose values drift is looked for, too.", Section.REQUESTS, default=(),
        example="language",
    )  # fmt: skip

    @property
    def scaling(self) -> ScalingPolicy:
        return ScalingPolicy(
            self.min_replicas, self.max_replicas, self.target_concurrency, self.target_latency_ms,
            self.idle_minutes * MINUTE_MS,
        )  # fmt: skip

    @property
    def consent(self) -> Consent:
        return Consent(self.collect_for, self.ask_consent)

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(self.max_batch, self.max_tokens, self.queue)


SCHEMA = schema_of(EndpointSpec)


def parse(mapping: object) -> EndpointSpec:
    """The spec of a REST body or a command; SpecError with every problem when it is not sound."""
    if not isinstance(mapping, Mapping):
        raise SpecError((Problem("", f"an endpoint is a mapping of fields, not {shown(mapping)}"),))
    problems: list[Problem] = []
    reader = Reader(mapping, problems)
    spec: EndpointSpec = read_fields(EndpointSpec, reader)
    reader.refuse_the_rest()
    if reader.sound("min_replicas", "max_replicas") and spec.min_replicas > spec.max_replicas:
        reader.refuse(
            "min_replicas", f"min_replicas is {spec.min_replicas}, more than max_replicas {spec.max_replicas}"
        )
    if reader.sound("gpu_type", "gpus") and shares_of(spec.gpu_type) > 1 and spec.gpus > 1:
        enough = larger(spec.gpu_type, spec.gpus)
        why = f"is {spec.gpus}, but a slot of {spec.gpu_type} is a share of a GPU, and a replica has one; "
        reader.say("gpus", f"{why}for more memory ask for one of {enough}, where the cluster has such a type")
    if reader.sound("runtime", "compile") and spec.compile and spec.runtime not in COMPILES:
        why = f"is true, but runtime {spec.runtime} is not compiled; choose {' or '.join(COMPILES)}, or leave it out"
        reader.say("compile", why)
    if reader.sound("alias", "version") and spec.alias and spec.version:
        reader.say(
            "alias", f"is {spec.alias}, and version is {spec.version}; an endpoint follows one of them"
        )
    if reader.sound("collect_for", "sample_percent") and spec.collect_for and not spec.sample_percent:
        reader.say("collect_for", "needs sample_percent: of what is not sampled nothing is collected")
    if reader.sound("collect_for") and any("," in one or not one.strip() for one in spec.collect_for):
        reader.say("collect_for", "names purposes such as training, without commas")
    if problems:
        raise SpecError(tuple(problems))
    return spec


def load(mapping: Mapping[str, Any]) -> EndpointSpec:
    """The spec that `as_mapping` wrote."""
    spec: EndpointSpec = load_fields(EndpointSpec, mapping)
    return spec


def as_mapping(spec: EndpointSpec) -> dict[str, Any]:
    return plain_fields(spec)
