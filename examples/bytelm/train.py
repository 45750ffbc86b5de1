"""A small GPT over bytes, trained data-parallel on the source files of Python's standard library.

    python train.py                                       alone, on a laptop
    torchrun --standalone --nproc-per-node 2 train.py     two processes: gloo on CPUs, NCCL on GPUs
    trainmaster submit job.yaml                           on the cluster

Every batch is drawn by its step number, so a resumed run sees the very batches that it would have seen.
"""

import math
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import prepare
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import trainmaster


@dataclass(frozen=True)
class Config:
    """Each of them may be a hyperparameter of the job."""

    steps: int = 200
    batch: int = 16  # sequences in a step, over all ranks
    context: int = 128  # bytes that the model sees
    layers: int = 4
    width: int = 128
    heads: int = 4
    lr: float = 3e-3
    embedding_lr: float = 3e-2  # a row is touched seldom, so it must learn faster
    warmup: int = 20
    weight_decay: float = 0.1
    eval_every: int = 20
    eval_batch: int = 64
    seed: int = 1


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_in, self.norm_mid = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_in(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_mid(x))))


class ByteGPT(nn.Module):
    """Each position starts as the sum of its own byte and the two before it: a trigram that the layers refine."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.bytes = nn.ModuleList(nn.Embedding(256, config.width) for _ in range(3))
        self.position = nn.Parameter(torch.randn(config.context, config.width) * 0.02)
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, 256, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.5 / math.sqrt(config.width))
        for block in self.blocks:  # at first each block passes on what it gets
            nn.init.zeros_(block.out.weight)
            nn.init.zeros_(block.down.weight)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        h = self.position[:length]
        for back, embedding in enumerate(self.bytes):
            h = h + F.pad(embedding(x), (0, 0, back, 0))[:, :length]
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class Windows:
    """Random windows of some files. Which ones depends on `key` alone, not on who asked before."""

    def __init__(self, folder: Path, context: int, device: torch.device) -> None:
        data = b"\n".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
        self.data = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self.context, self.device = context, device

    def draw(self, key: int, count: int, rank: int, world: int) -> tuple[Tensor, Tensor]:
        """This rank's share of the `count` windows: all ranks together see the same ones, however many they are."""
        random = torch.Generator().manual_seed(key)
        starts = torch.randint(len(self.data) - self.context, (count,), generator=random)[rank::world]
        windows = torch.stack([self.data[start : start + self.context + 1] for start in starts]).long()
        windows = windows.to(self.device)
        return windows[:, :-1], windows[:, 1:]


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    seen, wanted = batch
    return F.cross_entropy(model(seen).flatten(0, 1), wanted.flatten())


def mean(value: Tensor, world: int) -> float:
    """Over all ranks."""
    value = value.detach().clone()
    if world > 1:
        dist.all_reduce(value)
    return value.item() / world


@torch.no_grad()
def bits_per_byte(model: nn.Module, heldout: Windows, count: int, rank: int, world: int) -> float:
    model.eval()
    loss = loss_of(model, heldout.draw(0, count, rank, world))
    model.train()
    return mean(loss, world) / math.log(2)


@torch.no_grad()
def sample(
    model: nn.Module, config: Config, device: torch.device, start: bytes = b"def ", length: int = 256
) -> bytes:
    random = torch.Generator().manual_seed(config.seed)
    text = list(start)
    for _ in range(length):
        logits = model(torch.tensor([text[-config.context :]], device=device))[0, -1].cpu()
        text.append(int(torch.multinomial(torch.softmax(logits / 0.7, 0), 1, generator=random)))
    return bytes(text)


def optimizer_of(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "blocks" in name]
    rest = [p for name, p in model.named_parameters() if not (p.ndim == 2 and "blocks" in name)]
    groups = [
        {"params": matrices, "peak": config.lr, "weight_decay": config.weight_decay},
        {"params": rest, "peak": config.embedding_lr, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95))


def set_rate(optimizer: torch.optim.Optimizer, step: int, config: Config) -> float:
    """Linear warm-up, then a cosine down to a tenth. Returns the rate of the matrices."""
    scale = min(1.0, step / config.warmup) * (0.55 + 0.45 * math.cos(math.pi * step / config.steps))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * scale
    return config.lr * scale


def read_config() -> Config:
    given = trainmaster.hyperparameters()
    unknown = given.keys() - {field.name for field in fields(Config)}
    if unknown:
        sys.exit(
            f"bytelm has no hyperparameter {', '.join(sorted(unknown))}; it has {', '.join(asdict(Config()))}"
        )
    return Config(**given)


def start_ranks() -> tuple[int, int, torch.device]:
    """Joins the others that torchrun started, if it did."""
    gpu = torch.cuda.is_available()
    if not dist.is_torchelastic_launched():
        return 0, 1, torch.device("cuda" if gpu else "cpu")
    if gpu:
        torch.cuda.set_device(dist.get_node_local_rank())
    dist.init_process_group("nccl" if gpu else "gloo")
    return dist.get_rank(), dist.get_world_size(), torch.device("cuda" if gpu else "cpu")


def main() -> None:
    config = read_config()
    rank, world, device = start_ranks()
    if config.batch % world:
        sys.exit(f"a batch of {config.batch} cannot be shared by {world} ranks; choose a multiple of {world}")
    trainmaster.init(total_steps=config.steps, params=asdict(config), seed=config.seed)
    data = prepare.collect(trainmaster.data_dir())
    train, heldout = (Windows(data / part, config.context, device) for part in ("train", "heldout"))

    model = ByteGPT(config).to(device)
    optimizer = optimizer_of(model, config)
    parallel = DistributedDataParallel(model) if world > 1 else model
    done = 0
    if resumed := trainmaster.load_checkpoint():
        state, done = resumed
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    def save(step: int, **metrics: float) -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "config": asdict(config)}
        trainmaster.save_checkpoint(state, step, **metrics)

    known: dict[str, float] = {}
    stopping = False
    for step in range(done + 1, config.steps + 1):
        began = time.perf_counter()
        rate = set_rate(optimizer, step, config)
        loss = loss_of(parallel, train.draw(config.seed * 1_000_003 + step, config.batch, rank, world))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        known = {"loss": mean(loss, world), "lr": rate}
        known["bytes_per_second"] = config.batch * config.context / (time.perf_counter() - began)
        if step % config.eval_every == 0 or step == config.steps:
            known["bits_per_byte"] = bits_per_byte(model, heldout, config.eval_batch, rank, world)
        trainmaster.log(step, **known)
        last = step == config.steps
        stopping = trainmaster.should_stop()
        if last or stopping or trainmaster.checkpoint_due(step, every=60):
            save(step, **known)
        if stopping:
            break

    if rank == 0 and known and not stopping:
        print(f"held-out bits per byte: {known['bits_per_byte']:.3f}")
        text = Path("sample.py.txt")
        text.write_bytes(sample(model, config, device))
        trainmaster.log_artifact(text)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
