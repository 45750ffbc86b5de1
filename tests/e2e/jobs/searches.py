"""A trial of a sweep: its loss falls towards a floor that depends on the learning rate."""

import math
import time

import trainmaster

STEPS = 27

lr = float(trainmaster.hyperparameters()["lr"])
floor = abs(math.log10(lr) + 2)
trainmaster.init(total_steps=STEPS)
for step in range(1, STEPS + 1):
    trainmaster.log(step, loss=floor + 1 / step)
    if trainmaster.should_stop():
        print(f"stopped at step {step}")
        break
    time.sleep(0.3)
