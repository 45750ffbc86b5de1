"""What somebody asks the planner: a model, a cluster and a training, from numbers or a Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from platform_core.jobs.fields import Group, described, nested, read_fields, schema_of
from platform_core.jobs.kinds import choice, scaled, slug, whole
from platform_core.jobs.reader import Problem, Reader, SpecError, shown
from platform_core.jobs.transformer import ModelNumbers, Precision, Transformer
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.hugging_face import from_config
from platform_core.parallelism.layout import MODERN, Layout, Recipe
from platform_core.parallelism.model_shape import ModelShape

MAX_GPUS = 65_536
GIGABIT = 1e9 / 8  # bytes
BILLION = 10**9


class Section(StrEnum):
    MODEL = Group.SHAPE.value
    CLUSTER = "Cluster"
    TRAINING = "Training"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Made by `parse`, which refuses bad values with a sentence for each."""

    model: ModelNumbers = nested(ModelNumbers, Section.MODEL)  # noqa: RUF009
    sequence: int = described(
        whole(1, 10**7), "Sequence length", "Tokens of one sample.", Section.MODEL, default=4_096
    )
    gpu_type: str = described(
        slug(60, "a GPU such as h100-80gb"), "GPU type", "Its peak, memory and bandwidths.", Section.CLUSTER,
        default="h100-80gb",
    )  # fmt: skip
    gpus: int = described(whole(1, MAX_GPUS), "GPUs", "Of the whole training.", Section.CLUSTER, default=512)
    gpus_per_node: int = described(
        whole(1, 1_024), "GPUs per node", "That NVLink joins.", Section.CLUSTER, default=8
    )
    network_gbit: int = described(
        whole(1, 10**6), "Network per node (Gbit/s)", "In one direction.", Section.CLUSTER, default=3_200
    )
    oversubscription: int = described(
        whole(1, 1_000),
        "Oversubscription",
        "Of the network beyond a rack; 1: none.",
        Section.CLUSTER,
        default=1,
    )
    rack_nodes: int = described(
        whole(0, 10_000), "Nodes per rack", "0: all nodes reach each other alike.", Section.CLUSTER, default=0
    )
    global_batch: int = described(
        whole(1, 10**7), "Global batch", "Sequences of one step.", Section.TRAINING, default=1_024
    )
    tokens: int = described(
        scaled(BILLION, 10**6, positive=False), "Training tokens (billions)", "0: no whole run is estimated.",
        Section.TRAINING, default=0, name="tokens_billions",
    )  # fmt: skip
    precision: Precision = described(  # noqa: RUF009
        choice(Precision), "Precision", "Of matrix products.", Section.TRAINING, default=Precision.BF16
    )

    def shape(self) -> ModelShape:
        return shape_of(self.model, self.sequence)

    @property
    def recipe(self) -> Recipe:
        return replace(MODERN, precision=self.precision)

    def cluster(self, gpus: int = 0) -> Cluster:
        """With so many GPUs; 0: with those asked for."""
        node = Cluster(
            gpu_of(self.gpu_type), 1, self.gpus_per_node, self.network_gbit * GIGABIT,
            leaf=self.rack_nodes, oversubscription=float(self.oversubscription),
        )  # fmt: skip
        return node.holding(gpus or self.gpus)


def shape_of(model: ModelNumbers, sequence: int) -> ModelShape:
    """Raises ValueError for numbers that make no model."""
    return ModelShape(
        sequence=sequence, **{field.name: getattr(model, field.name) for field in fields(ModelNumbers)}
    )


def transformer_of(request: PlanRequest, layout: Layout) -> Transformer:
    """The block of a job file that says the same of the model, the batch and the layout."""
    return Transformer(
        **{field.name: getattr(request.model, field.name) for field in fields(ModelNumbers)},
        sequence=request.sequence,
        global_batch=request.global_batch,
        tokens=request.tokens,
        precision=request.precision,
        micro_batch=layout.micro_batch,
        recompute=layout.recompute,
        zero=layout.zero if layout.zero < 3 else 0,
        virtual=layout.virtual,
    )


SCHEMA = schema_of(PlanRequest)
SCHEMA["properties"]["config"] = {
    "type": "object",
    "description": "The content of a Hugging Face config.json, instead of `model`.",
}


def parse(mapping: object, labels: Mapping[str, str] | None = None) -> PlanRequest:
    """Raises SpecError of plan_invalid with every problem. Sentences call the fields by their names or these labels."""
    if not isinstance(mapping, Mapping):
        raise _invalid([Problem("", f"the question is a mapping of fields, not {shown(mapping)}")])
    problems: list[Problem] = []
    plain = {name: value for name, value in mapping.items() if name != "config"}
    config = mapping.get("config")
    if config is not None:
        plain |= _from_config(config, mapping, problems)
    reader = Reader(plain, problems, labels)
    request: PlanRequest = read_fields(PlanRequest, reader)
    reader.refuse_the_rest()
    if not problems:
        _check(request, reader, problems)
    if problems:
        raise _invalid(problems)
    return request


def _from_config(config: object, mapping: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    if not isinstance(config, Mapping):
        problems.append(Problem("config", f"config is the content of a config.json, not {shown(config)}"))
        return {}
    if mapping.get("model"):
        problems.append(Problem("config", "config and model are both given; keep one of the two"))
        return {}
    sequence = mapping.get("sequence")
    try:
        shape = from_config(config, sequence if type(sequence) is int else 0)
    except ValueError as error:
        problems.append(Problem("config", f"config describes no model that can be planned: {error}"))
        return {}
    numbers = {field.name: getattr(shape, field.name) for field in fields(ModelNumbers)}
    return {"model": numbers, "sequence": shape.sequence}


def _check(request: PlanRequest, reader: Reader, problems: list[Problem]) -> None:
    try:
        request.shape()
    except ValueError as error:
        problems.append(Problem("model", f"model: {error}"))
    try:
        gpu_of(request.gpu_type)
    except ValueError as error:
        problems.append(Problem("gpu_type", str(error)))
    if request.gpus > request.gpus_per_node and request.gpus % request.gpus_per_node:
        whole_nodes = request.gpus - request.gpus % request.gpus_per_node
        choices = f"{whole_nodes} or {whole_nodes + request.gpus_per_node}"
        reader.say("gpus", f"is {request.gpus}; with {request.gpus_per_node} a node ask for {choices}")


def _invalid(problems: list[Problem]) -> SpecError:
    return SpecError(tuple(problems), "plan_invalid")
