"""The layout of a training: how many ways each kind of parallelism divides the GPUs of a job.

Ranks are numbered as Megatron-LM numbers them (`tp-cp-ep-dp-pp`, Narayanan et al. 2021, arXiv 2104.04473, section 3.3)
and as torchtitan builds its mesh (`pp, dp_replicate, dp_shard, cp, tp`): tensor ranks are neighbours, then context
ranks, then those that share one copy of the weights (fsdp), then the copies (dp); pipeline stages are furthest apart,
because they send least. The planner computes with the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

from platform_core.jobs.fields import Group, described, fields_of, load_fields
from platform_core.jobs.kinds import truth, whole
from platform_core.jobs.reader import Problem, Reader, SpecError
from platform_core.units import plural

MAX_RANKS = 10_000
ORDER = ("pp", "dp", "fsdp", "cp", "tp")  # from the outermost to the innermost
_ONE = whole(1, MAX_RANKS)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Sizes. pp x dp x fsdp x cp x tp ranks; ep divides dp x fsdp; sp takes no ranks of its own."""

    dp: int | None = described(
        whole(1, MAX_RANKS, optional=True),
        "Copies of the model (dp)",
        "Data parallel: groups that hold the same weights. Empty: as many as the GPUs allow.",
        Group.LAYOUT,
    )
    fsdp: int = described(
        _ONE,
        "Sharded data parallel (fsdp)",
        "Ranks that share one copy of the weights.",
        Group.LAYOUT,
        default=1,
    )
    tp: int = described(
        _ONE, "Tensor parallel (tp)", "Ranks that share each matrix, on one node.", Group.LAYOUT, default=1
    )
    sp: bool = described(
        truth(),
        "Sequence parallel (sp)",
        "The tensor ranks also share the sequence between the matrices; it takes no GPUs of its own.",
        Group.LAYOUT,
        default=False,
    )
    cp: int = described(
        _ONE, "Context parallel (cp)", "Ranks that share each sequence.", Group.LAYOUT, default=1
    )
    pp: int = described(
        _ONE, "Pipeline parallel (pp)", "Stages that share the layers.", Group.LAYOUT, default=1
    )
    ep: int = described(
        _ONE,
        "Expert parallel (ep)",
        "Data ranks over which the experts are spread; it takes no GPUs of its own.",
        Group.LAYOUT,
        default=1,
    )

    @property
    def is_given(self) -> bool:
        return self != NONE

    @property
    def copy(self) -> int:
        """GPUs of one copy of the weights."""
        return self.fsdp * self.cp * self.tp * self.pp

    @property
    def replica(self) -> int:
        """GPUs by which the job may grow or shrink: whole copies, and as many as the experts are spread over."""
        return self.cp * self.tp * self.pp * lcm(self.fsdp, self.ep)

    def sized(self, gpus: int) -> Parallel:
        """With the number of copies that so many GPUs hold."""
        return replace(self, dp=gpus // self.copy)

    @property
    def data_ranks(self) -> int:
        """Groups of ranks that train on different samples: dp x fsdp."""
        return (self.dp or 1) * self.fsdp

    def data_rank(self, rank: int) -> int:
        """To which of them a rank belongs. Ranks that differ in pp, cp or tp alone train on the same samples."""
        return rank // (self.cp * self.tp) % self.data_ranks

    @property
    def dimensions(self) -> tuple[tuple[str, int], ...]:
        """Those with more than one rank, from the outermost to the innermost."""
        sizes = [(name, getattr(self, name) or 1) for name in ORDER]
        return tuple((name, size) for name, size in sizes if size > 1)

    @property
    def title(self) -> str:
        """ "pp 2 x fsdp 4 x tp 2 with sp, ep 4"."""
        ranks = " x ".join(f"{name} {size}" for name, size in self.dimensions) or "1 rank"
        return f"{ranks}{' with sp' if self.sp else ''}{f', ep {self.ep}' if self.ep > 1 else ''}"

    @property
    def text(self) -> str:
        """As the variable TRAINMASTER_PARALLEL has it: "dp=1,fsdp=4,tp=2,sp=true"."""
        values = ((field.name, getattr(self, field.attribute)) for field in fields_of(Parallel))
        sizes = {name: str(value).lower() for name, value in values if value is not None}
        return ",".join(f"{name}={size}" for name, size in sizes.items())


NONE = Parallel()


def from_text(text: str) -> Parallel:
    """Raises SpecError with a sentence for each problem."""
    problems: list[Problem] = []
    mapping: dict[str, object] = {}
    for part in text.replace(",", " ").split():
        name, _, value = part.partition("=")
        mapping[name] = value or "nothing"
    reader = Reader(mapping, problems)
    parallel = Parallel(
        **{
            field.attribute: field.kind.read(reader, field.name, field.default)
            for field in fields_of(Parallel)
        }
    )
    reader.refuse_the_rest()
    if problems:
        raise SpecError(tuple(problems))
    return parallel


def title_of(spec: Mapping[str, Any], gpus: int) -> str:
    """The layout of a job by its stored description, with the copies that so many GPUs hold; '' without one."""
    parallel: Parallel = load_fields(Parallel, spec.get("parallel") or {})
    return parallel.sized(gpus).title if parallel.is_given else ""


def check(read: Reader, num_gpus: int, min_gpus: int, parallel: Parallel, has_roles: bool) -> None:
    """The layout divides the GPUs of the job, all of them, with every number that it may run with."""
    if not parallel.is_given or not read.sound("num_gpus", *[f"parallel.{field}" for field in _names()]):
        return
    label = read.label
    if has_roles:
        read.refuse(
            "roles",
            f"{label('roles')} and a layout ({parallel.title}) are both given, but roles place processes by name;"
            " keep one of the two",
        )
    if parallel.sp and parallel.tp == 1:
        alone = f"is true, but {label('parallel.tp')} is 1, so no tensor ranks could share the sequence"
        read.say("parallel.sp", f"{alone}; raise {label('parallel.tp')}, or leave {label('parallel.sp')} out")
    if _divides(read, num_gpus, parallel) and read.sound("min_gpus") and min_gpus % parallel.replica:
        fixed = f"is {min_gpus}, but the job grows and shrinks by whole replicas of {parallel.replica} GPUs"
        read.say("min_gpus", f"{fixed} ({_product(parallel)}); choose {_near(min_gpus, parallel.replica)}")


def _divides(read: Reader, num_gpus: int, parallel: Parallel) -> bool:
    label, copy = read.label, parallel.copy
    if num_gpus % copy:
        takes = f"is {num_gpus}, but one copy of the model takes {plural(copy, 'GPU')} ({_product(parallel)})"
        read.say("num_gpus", f"{takes}; choose {_near(num_gpus, copy)}, or lower one of the sizes")
        return False
    copies = num_gpus // copy
    if parallel.dp is not None and parallel.dp != copies:
        asks = f"is {parallel.dp}, which makes {parallel.dp * copy} GPUs with the other sizes ({_product(parallel)})"
        remedy = f"but {label('num_gpus')} is {num_gpus}; set it to {copies}, or leave it out"
        read.say("parallel.dp", f"{asks}, {remedy}")
        return False
    ranks = copies * parallel.fsdp
    if ranks % parallel.ep:
        read.say(
            "parallel.ep",
            f"is {parallel.ep}, which does not divide the {plural(ranks, 'data rank')} of this job"
            f" (dp {copies} x fsdp {parallel.fsdp}); choose a divisor of {ranks}",
        )
        return False
    return True


def _names() -> list[str]:
    return [field.name for field in fields_of(Parallel)]


def _product(parallel: Parallel) -> str:
    sizes = [(name, getattr(parallel, name)) for name in ("fsdp", "cp", "tp", "pp")]
    product = " x ".join(f"{name} {size}" for name, size in sizes if size > 1)
    experts = f", experts over {parallel.ep}" if parallel.ep > 1 else ""
    return f"{product or '1 rank'}{experts}"


def _near(number: int, step: int) -> str:
    """The multiples around it."""
    below = number // step * step
    return f"{below} or {below + step}" if below else f"{step}"
