"""Fits a line by gradient descent and tracks it: on a laptop, in a notebook, on any cluster. Needs no GPU and no torch.

    trainmaster login https://trainmaster.example
    python examples/track_anything.py --rate 0.1

Without a login, or without a network, the run waits in ./trainmaster-runs/ for `trainmaster sync`.
"""

import argparse
import random

import trainmaster

STEPS = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.05)
    rate = parser.parse_args().rate
    chance = random.Random(1)
    data = [(x / 10, 2 * x / 10 + 1 + chance.gauss(0, 0.1)) for x in range(-20, 20)]
    slope = offset = 0.0
    with trainmaster.init(
        total_steps=STEPS, experiment="first steps", params={"rate": rate}, tags={"stage": "try"}
    ) as run:
        for step in range(1, STEPS + 1):
            errors = [(slope * x + offset - y, x) for x, y in data]
            slope -= rate * 2 * sum(error * x for error, x in errors) / len(data)
            offset -= rate * 2 * sum(error for error, _ in errors) / len(data)
            run.log(step, {"train/loss": sum(error**2 for error, _ in errors) / len(data), "slope": slope})
            if step % 50 == 0:
                run.log(step, errors=trainmaster.Histogram([error for error, _ in errors], bins=20))
        table = trainmaster.Table(["x", "y", "fitted"], [(x, y, slope * x + offset) for x, y in data])
        run.log(STEPS, predictions=table)
        print(f"y = {slope:.2f} x + {offset:.2f}")


if __name__ == "__main__":
    main()
