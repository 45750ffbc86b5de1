"""A GPT in three dimensions: FSDP2, tensor and pipeline parallel, arranged by `parallel` in the job file.

The same script runs on one GPU and on a thousand: every dimension that the job does not name has one rank.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import trainmaster

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 64, 16, 32, 4, 4
GLOBAL_BATCH, MICRO_BATCHES = 16, 2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A tensor rank has some of the heads, so their number follows from the width that it has.
        q, k, v = (
            layer(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        return self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.mlp_norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))


class Gpt(nn.Module):
    """All of the model, or one stage of the pipeline: the parts that other stages have are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding: nn.Module | None = Embedding()
        self.blocks = nn.ModuleDict({str(layer): Block() for layer in range(LAYERS)})
        self.norm: nn.Module | None = nn.LayerNorm(WIDTH)
        self.head: nn.Module | None = nn.Linear(WIDTH, VOCABULARY)

    def keep_stage(self, stage: int, stages: int) -> None:
        first, last = stage * LAYERS // stages, (stage + 1) * LAYERS // stages
        for layer in range(LAYERS):
            if not first <= layer < last:
                del self.blocks[str(layer)]
        if stage > 0:
            self.embedding = None
        if stage < stages - 1:
            self.norm = self.head = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        if self.norm is None or self.head is None:
            return x
        return self.head(self.norm(x))


def split_matrices(model: Gpt, mesh: DeviceMesh, sp: bool) -> None:
    """Tensor parallel. With `sp` the ranks also share the sequence, which is dimension 1, between the matrices."""
    between = Shard(1) if sp else Replicate()
    whole = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
    plan = {
        "attention": whole, "mlp": whole,
        "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(), "attention.v": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=between),
        "mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel(output_layouts=between),
    }  # fmt: skip
    norms = {"attention_norm": SequenceParallel(), "mlp_norm": SequenceParallel()}
    for block in model.blocks.values():
        parallelize_module(block, mesh, plan | (norms if sp else {}))
    if model.embedding is not None:
        token = RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate())
        output = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=between)
        parallelize_module(model.embedding, mesh, {"token": token, "": output})
    if model.head is not None:
        head = ColwiseParallel(input_layouts=between, output_layouts=Replicate())
        parallelize_module(model, mesh, {"head": head} | ({"norm": SequenceParallel()} if sp else {}))


def shard_weights(model: Gpt, mesh: DeviceMesh) -> None:
    """FSDP2: each block is gathered by itself. Copies of the shards (dp) make it HSDP."""
    for block in model.blocks.values():
        fully_shard(block, mesh=mesh, reshard_after_forward=False)  # the schedule soon needs it again
    fully_shard(model, mesh=mesh, reshard_after_forward=False)


def pipeline_stage(
    model: Gpt, mesh: DeviceMesh, samples: int, sp: bool, device: torch.device
) -> PipelineStage:
    stage, stages = mesh.get_local_rank("pp"), mesh["pp"].size()
    length = LENGTH // mesh["tp"].size() if sp else LENGTH
    tokens = torch.zeros(samples, LENGTH, dtype=torch.long, device=device)
    flow = torch.zeros(samples, length, WIDTH, device=device, requires_grad=True)  # between two stages
    logits = torch.zeros(samples, LENGTH, VOCABULARY, device=device, requires_grad=True)
    return PipelineStage(
        model, stage, stages, device, flow if stage else tokens, flow if stage < stages - 1 else logits,
        group=mesh.get_group("pp"),
    )  # fmt: skip


def batch(step: int, part: int, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What one data rank has of a global batch: the next token is the one before plus one."""
    starts = torch.randint(VOCABULARY, (GLOBAL_BATCH, 1), generator=torch.Generator().manual_seed(step))
    x = ((starts + torch.arange(LENGTH)) % VOCABULARY).chunk(parts)[part]
    return x, (x + 1) % VOCABULARY


def token_loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), y.flatten())


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    """Sharded as the model is."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    device = torch.device("cuda", dist.get_node_local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    trainmaster.init(total_steps=steps, seed=1)

    layout, mesh = trainmaster.layout(), trainmaster.device_mesh()
    if layout.cp * layout.ep > 1:
        raise SystemExit(
            f"This example has neither context nor expert parallelism, but the layout is {layout.title}."
        )
    stage, stages = mesh.get_local_rank("pp"), mesh["pp"].size()
    part = mesh.get_local_rank("dp") * mesh["fsdp"].size() + mesh.get_local_rank("fsdp")
    parts = mesh["dp"].size() * mesh["fsdp"].size()

    model = Gpt().to(device)  # the same weights on every rank, by the seed
    model.keep_stage(stage, stages)
    split_matrices(model, mesh["tp"], layout.sp)
    shard_weights(model, mesh["dp", "fsdp"])
    samples = GLOBAL_BATCH // parts // MICRO_BATCHES
    pipeline = pipeline_stage(model, mesh, samples, layout.sp, device)
    schedule = Schedule1F1B(pipeline, MICRO_BATCHES, loss_fn=token_loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, foreach=False)  # on two kinds of meshes
    done, key = 0, f"stage {stage}"
    if resumed := trainmaster.load_checkpoint(into={key: state_of(model, optimizer)}):
        state, done = resumed
        set_state_dict(
            model, optimizer, model_state_dict=state[key]["model"], optim_state_dict=state[key]["optimizer"]
        )

    for step in range(done + 1, steps + 1):
        x, y = (half.to(device) for half in batch(step, part, parts))
        losses: list[torch.Tensor] = []
        first, last = (x,) if stage == 0 else (), stage == stages - 1
        schedule.step(*first, **({"target": y, "losses": losses} if last else {}))
        optimizer.step()
        optimizer.zero_grad()
        # The last stage knows the loss of its samples; the sum over all ranks counts each once for every tensor rank.
        loss = torch.stack(losses).mean().detach() if last else torch.zeros((), device=device)
        dist.all_reduce(loss)
        trainmaster.log(step, loss=loss / (parts * mesh["tp"].size()))
        stopping = trainmaster.should_stop()
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            trainmaster.save_checkpoint({key: state_of(model, optimizer)}, step)
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
