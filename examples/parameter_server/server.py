"""The server of the parameters. Workers ask for them and send gradients, each at its own pace (asynchronous SGD)."""

import json
import os
import socketserver
import threading

import torch
from protocol import receive, send

import trainmaster

LATENESS = 8  # a gradient of parameters that are older than so many steps is dropped


class Parameters:
    def __init__(self, steps: int, workers: int) -> None:
        self.lock, self.steps, self.step, self.left = threading.Lock(), steps, 0, workers
        self.weights = torch.zeros(8)
        if resumed := trainmaster.load_checkpoint():
            state, self.step = resumed
            self.weights = state["weights"]
        self.stopping = False

    @property
    def finished(self) -> bool:
        return self.stopping or self.step >= self.steps

    def apply(self, gradient: torch.Tensor, of_step: int, loss: float) -> None:
        with self.lock:
            if self.finished or self.step - of_step > LATENESS:
                return
            self.step += 1
            self.weights = self.weights - 0.05 * gradient
            trainmaster.log(self.step, loss=loss, lateness=self.step - 1 - of_step)

    def leave(self) -> int:
        with self.lock:
            self.left -= 1
            return self.left

    def save_if_due(self) -> None:
        """Called by the main thread, which alone hears signals."""
        with self.lock:
            self.stopping = self.stopping or trainmaster.should_stop()
            if self.step > 0 and (self.finished or trainmaster.checkpoint_due(self.step, every=10)):
                trainmaster.save_checkpoint({"weights": self.weights}, self.step)


def main() -> None:
    steps = int(trainmaster.hyperparameters().get("steps", 20))
    addresses = json.loads(os.environ["TRAINMASTER_ROLES"])
    trainmaster.init(total_steps=steps)
    parameters = Parameters(steps, len(addresses["worker"]))
    everyone_left = threading.Event()

    class Worker(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while not parameters.finished:
                    send(self.request, {"step": parameters.step, "weights": parameters.weights.tolist()})
                    sent = receive(self.request)
                    parameters.apply(torch.tensor(sent["gradient"]), sent["step"], sent["loss"])
                send(self.request, {"finished": True})
            except ConnectionError:
                print("a worker has left")
            finally:
                if parameters.leave() == 0:
                    everyone_left.set()

    port = int(addresses["server"][0].rpartition(":")[2])
    with socketserver.ThreadingTCPServer(("", port), Worker) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        saved = parameters.step
        while not everyone_left.wait(0.05):
            if parameters.step != saved or trainmaster.should_stop():
                parameters.save_if_due()
                saved = parameters.step
        server.shutdown()
    if parameters.step != saved:
        parameters.save_if_due()
    print(f"{parameters.step} steps, weights {[round(value, 2) for value in parameters.weights.tolist()]}")


if __name__ == "__main__":
    main()
