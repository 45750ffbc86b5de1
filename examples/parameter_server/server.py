"""A server of the parameters: it takes the gradients of the workers, each at its own pace, and saves."""

import collective
import torch
from model import RATE, Model

import trainmaster
from trainmaster.parameter_server import Mode, Server, addresses, index


def main() -> None:
    asked = trainmaster.hyperparameters()
    steps = int(asked.get("steps", 20))
    workers, servers = len(addresses("worker")), addresses("server")
    trainmaster.init(total_steps=steps)
    if asked.get("mode") in collective.MODES:
        collective.watch(asked, steps)
        trainmaster.finish()
        return
    server = Server(
        dict(Model().named_parameters()),
        lambda parameters: torch.optim.SGD(parameters, lr=RATE),
        workers=workers,
        steps=steps,
        mode=Mode(asked.get("mode", "stale-synchronous")),
        bound=int(asked.get("bound", 4)),  # steps that a worker may be ahead of the slowest
        number=index(),
        servers=len(servers),
        observe=lambda update: trainmaster.log(
            update.written,
            loss=server.loss,
            staleness=update.staleness,
            bytes_moved=server.bytes_in + server.bytes_out,
        ),
    )
    if resumed := trainmaster.load_checkpoint():
        server.load_state_dict(resumed[0])
    listener = server.listen(port=servers[index()][1])
    saved, ended = server.version, False
    while not ended:
        ended, step = server.wait(0.2), server.version
        if trainmaster.should_stop():  # the workers are told at their next step
            server.stop()
        if step > saved and (ended or server.finished or trainmaster.checkpoint_due(step, every=10)):
            saved = step
            trainmaster.save_checkpoint(server.state_dict(), step)
    listener.shutdown()
    print(f"{server.version} steps; updates missed by how many gradients: {dict(server.staleness)}")
    trainmaster.finish()


if __name__ == "__main__":
    main()
