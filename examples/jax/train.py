"""JAX: `jax.distributed` joins the processes; the batch is one array over all their devices."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import trainmaster


def loss_of(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    first, second = parameters
    return jnp.mean((jnp.tanh(x @ first) @ second - y) ** 2)


@jax.jit
def train(parameters: list[jax.Array], x: jax.Array, y: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    return [value - 0.02 * gradient for value, gradient in zip(parameters, gradients, strict=True)], loss


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    if "JAX_PROCESS_ID" in os.environ:  # JAX finds the coordinator by itself
        jax.distributed.initialize(
            num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
        )
    rank, world = jax.process_index(), jax.process_count()
    trainmaster.init(total_steps=steps)
    by_rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    keys = jax.random.split(jax.random.key(1))
    parameters = [jax.random.normal(keys[0], (8, 32)) / 3, jax.random.normal(keys[1], (32, 1)) / 6]
    done = 0
    if resumed := trainmaster.load_checkpoint():  # every process reads it
        state, done = resumed
        parameters = [jnp.asarray(value.numpy()) for value in state["parameters"]]

    for step in range(done + 1, steps + 1):
        rows = np.random.default_rng(step).standard_normal((16, 8), dtype=np.float32)
        mine = np.split(rows, world)[rank]
        x = jax.make_array_from_process_local_data(by_rows, mine)
        y = jax.make_array_from_process_local_data(by_rows, mine.sum(axis=1, keepdims=True))
        parameters, loss = train(parameters, x, y)
        trainmaster.log(step, loss=float(loss))
        # Processes may learn of a stop one step apart: they agree.
        stopping = bool(multihost_utils.process_allgather(np.array(trainmaster.should_stop())).any())
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            values = [torch.from_numpy(np.array(value)) for value in parameters]
            trainmaster.save_checkpoint({"parameters": values}, step)  # rank 0 writes
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written


if __name__ == "__main__":
    main()
