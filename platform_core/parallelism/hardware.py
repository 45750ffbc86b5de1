"""GPUs by what their makers state and what was measured of it, and the cluster they stand in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from platform_core.units import GIB


@dataclass(frozen=True, slots=True)
class Gpu:
    """Rates in FLOP/s and bytes/s, dense (no sparsity); `nvlink_rate` in one direction.

    `matmul`: the share of the peak that large matrix products sustain. A100: 0.869 at best (S. Bekman,
    "Machine Learning Engineering", table "Maximum Achievable Matmul FLOPS"), times 1305/1410, the clock that
    it holds under load (NVIDIA's HPL runs). H100: 0.803 at best in that table, 760 TFLOP/s in a long run of
    8192^3 products; 0.709 at best in eight bits, reduced likewise. B200: that table. Others: the nearest
    relative. `attention`: the same of FlashAttention,
    A100 0.65 (Dao 2023, arXiv 2307.08691, section 4.1), Hopper 0.35 (Shah et al. 2024, arXiv 2407.08608,
    abstract).
    """

    name: str
    bf16_rate: float
    fp8_rate: float  # 0: has none
    memory_bytes: int
    memory_rate: float
    nvlink_rate: float  # 0: has none
    multiprocessors: int
    matmul: float
    matmul_fp8: float
    attention: float


# NVIDIA A100 data sheet (June 2021), H100 data sheet (2023), H200 data sheet (2024), HGX B200 data sheet
# (2025), L40S data sheet (2023), V100 data sheet (2020). H100 of 96 GB: HBM2e and 500 W, the GPUs of
# torchtitan's figures (arXiv 2410.06511); the clock is taken to go with the square root of the power.
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100-32gb", 125e12, 0.0, 32 * GIB, 0.9e12, 150e9, 80, 0.80, 0.0, 0.50),
        Gpu("a100-40gb", 312e12, 0.0, 40 * GIB, 1.555e12, 300e9, 108, 0.805, 0.0, 0.65),
        Gpu("a100-80gb", 312e12, 0.0, 80 * GIB, 2.039e12, 300e9, 108, 0.805, 0.0, 0.65),
        Gpu("l40s-48gb", 362e12, 733e12, 48 * GIB, 0.864e12, 0.0, 142, 0.80, 0.68, 0.50),
        Gpu("h100-80gb", 989.4e12, 1978.9e12, 80 * GIB, 3.35e12, 450e9, 132, 0.768, 0.68, 0.35),
        Gpu("h100-96gb", 989.4e12, 1978.9e12, 96 * GIB, 2.4e12, 450e9, 132, 0.65, 0.575, 0.30),
        Gpu("h200-141gb", 989.4e12, 1978.9e12, 141 * 1000**3, 4.8e12, 450e9, 132, 0.768, 0.68, 0.35),
        Gpu("b200-180gb", 2250e12, 4500e12, 180 * 1000**3, 7.7e12, 900e9, 148, 0.74, 0.65, 0.35),
    )
}
PCIE_RATE = (
    25e9  # of 32 GB/s, PCI Express 4.0 x16: between GPUs without NVLink, and to the memory of the host
)


def gpu_of(name: str) -> Gpu:
    """By the name that agents report, or its beginning: "H200" is h200-141gb. Of several the smallest is meant."""
    asked = name.strip().lower()
    begun = [gpu for known, gpu in GPUS.items() if known == asked or known.startswith(f"{asked}-")]
    if not begun:
        raise ValueError(f"{name!r} is not a known GPU; known are {', '.join(GPUS)}")
    return min(begun, key=lambda gpu: gpu.memory_bytes)


@dataclass(frozen=True, slots=True)
class Cluster:
    """`network_rate`: bytes/s that a node sends in one direction. Nodes of one `leaf` reach each other at that
    rate; beyond, they have 1 / `oversubscription` of it. `island`: GPUs that NVLink joins. `racks`: of a known place,
    the leaf of each node in order of rank."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int = 8
    network_rate: float = 100e9
    island: int = 0  # 0: the node
    leaf: int = 0  # nodes; 0: all of them
    oversubscription: float = 1.0
    racks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise ValueError(f"a cluster of {self.nodes} nodes with {self.gpus_per_node} GPUs each has none")
        if self.network_rate <= 0 or self.oversubscription < 1:
            raise ValueError("network_rate must be positive and oversubscription at least 1")
        if self.racks and len(self.racks) != self.nodes:
            raise ValueError(f"{len(self.racks)} racks are named for {self.nodes} nodes; name one for each")

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def joined(self) -> int:
        """GPUs that NVLink joins, or else the bus of one node."""
        return self.island or self.gpus_per_node

    @property
    def local_rate(self) -> float:
        return self.gpu.nvlink_rate or PCIE_RATE

    @property
    def network_share(self) -> float:
        """Of one GPU."""
        return self.network_rate / self.gpus_per_node

    def holding(self, gpus: int) -> Cluster:
        """As much of it as that many GPUs need; fewer than a node has are a smaller node."""
        each = min(gpus, self.gpus_per_node)
        rate = self.network_rate * each / self.gpus_per_node
        return replace(self, nodes=-(-gpus // each), gpus_per_node=each, network_rate=rate)
