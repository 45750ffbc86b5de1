"""TensorFlow MultiWorkerMirroredStrategy: it reads TF_CONFIG, one worker a node."""

import os

import tensorflow as tf
import torch

import trainmaster


def batch(step: int) -> tuple[tf.Tensor, tf.Tensor]:
    x = tf.random.stateless_normal((16, 8), seed=(1, step))
    return x, tf.reduce_sum(x, axis=1, keepdims=True)


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # first of all, before anything touches a device
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    trainmaster.init(total_steps=steps)
    tf.random.set_seed(1)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(32, "tanh"), tf.keras.layers.Dense(1)])
        model.build((None, 8))
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
    variables = [*model.variables, *optimizer.variables]
    done = 0
    if resumed := trainmaster.load_checkpoint():  # every worker reads it
        state, done = resumed
        for variable, value in zip(variables, state["variables"], strict=True):
            variable.assign(value.numpy())

    @tf.function
    def train(x: tf.Tensor, y: tf.Tensor, stopping: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def one_replica(x: tf.Tensor, y: tf.Tensor, stopping: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss, stopping

        loss, stopping = strategy.run(one_replica, (x, y, stopping))
        return strategy.reduce("MEAN", loss, None), strategy.reduce("SUM", stopping, None)

    for step in range(done + 1, steps + 1):
        x, y = batch(step)
        asked = tf.constant(float(trainmaster.should_stop()))
        # Each worker takes its part of the batch; all of them learn whether one was asked to stop.
        loss, votes = train(x[rank::world], y[rank::world], asked)
        trainmaster.log(step, loss=float(loss))
        stopping = float(votes) > 0
        if stopping or step == steps or trainmaster.checkpoint_due(step, every=10):
            values = [torch.tensor(variable.numpy()) for variable in variables]
            trainmaster.save_checkpoint({"variables": values}, step)  # rank 0 writes
        if stopping:
            break
    trainmaster.finish()  # the last checkpoint is written


if __name__ == "__main__":
    main()
