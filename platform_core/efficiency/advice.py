"""What limits a run and what to do about it: one rule a function, each with its evidence and what it may gain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from platform_core.efficiency.peaks import Precision, peak
from platform_core.efficiency.ranks import Breakdown, Straggler
from platform_core.units import CPU, format_bytes

MUCH_DATA, MUCH_CHECKPOINT, MUCH_EVALUATION, MUCH_COMMUNICATION = 0.10, 0.05, 0.20, 0.20
BUSY_CPU, LOW_USE, IDLE_USE = 0.90, 0.60, 0.05
SHORT_KERNEL_US, MUCH_IDLE, MUCH_SYNC = 20.0, 0.20, 0.10
HOT_CELSIUS = 85.0  # NVIDIA's data center GPUs slow down between 85 and 90 °C
LITTLE_MEMORY = 0.40


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run. None: not measured, so that no rule speaks of it."""

    gpu_type: str
    breakdown: Breakdown
    utilisation: tuple[float, ...] = ()  # 0 to 1, by slot
    memory_used: float | None = None  # 0 to 1 of the memory of a slot, at most
    memory_bytes: int | None = None  # of a slot
    cpu_use: float | None = None  # 0 to 1 of the processors that the job was given, or of its nodes
    temperature: float | None = None  # of the hottest GPU
    precision_bits: int | None = None  # 32, 19 (TF32), 16, 8
    stragglers: tuple[Straggler, ...] = ()
    idle: float | None = None  # share of a profile in which its GPU did nothing
    kernel_us: float | None = None  # mean time of a kernel
    synchronising: float | None = None  # share of a profile in which the script waited for its GPU

    @property
    def mean_use(self) -> float | None:
        return sum(self.utilisation) / len(self.utilisation) if self.utilisation else None


@dataclass(frozen=True, slots=True)
class Advice:
    code: str
    title: str
    evidence: str
    remedy: str
    gain: float | None  # share of the time of a step that it may save, at most; None: no number follows


Rule = Callable[[Facts], Advice | None]


def advise(facts: Facts) -> tuple[Advice, ...]:
    """What may gain most comes first, and what has no number last, in the order of the rules."""
    found = [advice for rule in RULES if (advice := rule(facts)) is not None]
    return tuple(sorted(found, key=lambda advice: -(advice.gain or 0.0)))


def data_starved(facts: Facts) -> Advice | None:
    share = facts.breakdown.data
    if share < MUCH_DATA or (facts.cpu_use or 0.0) >= BUSY_CPU:
        return None
    return Advice(
        "data_starved",
        "The loader of data is too slow",
        f"{_percent(share)} of the time waits for the next batch.",
        "Give the DataLoader more num_workers, prefetch_factor and pin_memory=True, or keep decoded data on a "
        "local disk.",
        share,
    )


def preprocessing(facts: Facts) -> Advice | None:
    share, use = facts.breakdown.data, facts.cpu_use
    if share < MUCH_DATA or use is None or use < BUSY_CPU:
        return None
    return Advice(
        "cpu_bound_preprocessing",
        "Preprocessing needs more processors",
        f"{_percent(share)} of the time waits for the next batch while {_percent(use)} of the processors are busy.",
        "Ask for more CPUs per GPU, prepare the data once and store it, or decode on the GPU.",
        share,
    )


def communication_bound(facts: Facts) -> Advice | None:
    share = facts.breakdown.communication
    if share is None or share < MUCH_COMMUNICATION or facts.stragglers:
        return None
    return Advice(
        "communication_bound",
        "Ranks wait for collectives",
        f"{_percent(share)} of the time is communication that no computation hides.",
        "Overlap it (larger buckets, prefetch of FSDP), accumulate gradients over more batches, or plan another "
        "layout: fewer shards across nodes.",
        share,
    )


def checkpoint_bound(facts: Facts) -> Advice | None:
    share = facts.breakdown.checkpoint
    if share < MUCH_CHECKPOINT:
        return None
    return Advice(
        "checkpoint_bound",
        "Saving blocks the training",
        f"{_percent(share)} of the time is spent in save_checkpoint.",
        'Save less often, without blocking=True, or with when_busy="skip"; check the disk of the node.',
        share,
    )


def evaluation_bound(facts: Facts) -> Advice | None:
    share = facts.breakdown.evaluation
    if share < MUCH_EVALUATION:
        return None
    return Advice(
        "evaluation_bound",
        "Evaluation takes long",
        f"{_percent(share)} of the time is evaluation.",
        "Evaluate less often, on a fixed sample, with larger batches, or on a checkpoint in a job of its own.",
        share,
    )


def imbalance(facts: Facts) -> Advice | None:
    if not facts.stragglers:
        return None
    slowest = facts.stragglers[0]
    where = f" on {slowest.node}" if slowest.node else ""
    return Advice(
        "imbalance",
        "One rank holds up the others",
        f"Rank {slowest.rank}{where} takes {slowest.times:.2f} times as long as the median.",
        "Compare its input with that of the others (length, size of shards), and the health and clock of its node.",
        1 - 1 / slowest.times,
    )


def launch_bound(facts: Facts) -> Advice | None:
    if facts.idle is None or facts.kernel_us is None:
        return None
    if facts.idle < MUCH_IDLE or facts.kernel_us > SHORT_KERNEL_US or facts.breakdown.data >= MUCH_DATA:
        return None
    return Advice(
        "launch_bound",
        "The GPU waits for its next kernel",
        f"In a profile the GPU idles {_percent(facts.idle)} of the time between kernels of {facts.kernel_us:.0f} µs.",
        "Use torch.compile or CUDA graphs, fused optimizers, or a larger batch.",
        facts.idle,
    )


def synchronisation(facts: Facts) -> Advice | None:
    share = facts.synchronising
    if share is None or share < MUCH_SYNC or (facts.idle or 0.0) < MUCH_SYNC:
        return None
    return Advice(
        "synchronisation",
        "The script waits for the GPU in each step",
        f"In a profile it waits {_percent(share)} of the time for results, as item() and cpu() do.",
        "Read values of tensors every few steps, and copy with non_blocking=True.",
        min(share, facts.idle or 0.0),
    )


def small_batch(facts: Facts) -> Advice | None:
    use, memory = facts.mean_use, facts.memory_used
    if facts.gpu_type == CPU or use is None or memory is None:
        return None
    if use >= LOW_USE or memory >= 0.5 or facts.breakdown.data >= MUCH_DATA:
        return None
    return Advice(
        "small_batch",
        "The batch is small for this GPU",
        f"The GPUs are {_percent(use)} busy and {_percent(memory)} of their memory is used.",
        "Raise the batch size with the learning rate, or use fewer or smaller GPUs.",
        1 - use,
    )


def memory_unused(facts: Facts) -> Advice | None:
    used, size = facts.memory_used, facts.memory_bytes
    if (
        facts.gpu_type == CPU
        or used is None
        or size is None
        or used >= LITTLE_MEMORY
        or small_batch(facts) is not None
    ):
        return None
    return Advice(
        "memory_unused",
        "Most of the memory is not used",
        f"At most {format_bytes(int(used * size))} of {format_bytes(size)} are used.",
        "Switch activation checkpointing off, shard less, raise the batch size, or take GPUs with less memory.",
        None,
    )


def idle_gpus(facts: Facts) -> Advice | None:
    idle = [slot for slot, use in enumerate(facts.utilisation) if use < IDLE_USE]
    if not idle or len(idle) == len(facts.utilisation):
        return None
    return Advice(
        "idle_gpus",
        "Some of its slots do nothing",
        f"{len(idle)} of {len(facts.utilisation)} slots are below {_percent(IDLE_USE)}: "
        f"{', '.join(map(str, idle[:8]))}.",
        "Start one process a slot (the launcher does it for every strategy but custom), or ask for fewer slots.",
        None,
    )


def wrong_precision(facts: Facts) -> Advice | None:
    bits = facts.precision_bits
    half = peak(facts.gpu_type, Precision.HALF)
    now = peak(facts.gpu_type, Precision.FP32 if bits == 32 else Precision.TF32)
    if bits is None or bits < 19 or half is None or now is None:
        return None
    return Advice(
        "wrong_precision",
        "Matrix products use 32 bits",
        f"They run in {'FP32' if bits == 32 else 'TF32'} at up to {now / 1e12:,.0f} TFLOP/s; in bfloat16 the GPU does "
        f"{half / 1e12:,.0f}.",
        "Use torch.autocast with bfloat16, or at least torch.set_float32_matmul_precision('high').",
        facts.breakdown.compute * (1 - now / half),
    )


def thermal(facts: Facts) -> Advice | None:
    if facts.temperature is None or facts.temperature < HOT_CELSIUS:
        return None
    return Advice(
        "thermal_throttling",
        "A GPU is hot and may slow down",
        f"The hottest GPU reached {facts.temperature:.0f} °C.",
        f"Its clock falls from about {HOT_CELSIUS:.0f} °C on; look at the cooling of its node.",
        None,
    )


RULES: tuple[Rule, ...] = (
    data_starved, preprocessing, communication_bound, checkpoint_bound, evaluation_bound, imbalance, launch_bound,
    synchronisation, small_batch, memory_unused, idle_gpus, wrong_precision, thermal,
)  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
