"""Fits a small network to a sine. Replace the model, the data and the loss with your own.

python train.py                       alone, on this machine
trainmaster submit job.yaml --follow  on the cluster
"""

import torch
from torch import nn

import trainmaster

params = {"lr": 0.01, "width": 64, **trainmaster.hyperparameters()}
lr, width, steps = float(params["lr"]), int(params["width"]), 300

# Reports what the run is, and seeds Python, numpy and torch.
trainmaster.init(total_steps=steps, params=params, seed=1)
model = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=lr)

# After a restart the run continues from its newest checkpoint.
done = 0
if resumed := trainmaster.load_checkpoint():
    state, done = resumed
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])

held_out = torch.linspace(-3, 3, 50).unsqueeze(1)
for step in range(done + 1, steps + 1):
    x = torch.rand(64, 1) * 6 - 3
    loss = nn.functional.mse_loss(model(x), torch.sin(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    trainmaster.log(step, {"train/loss": loss})
    if step % 50 == 0:
        with torch.no_grad():
            error = nn.functional.mse_loss(model(held_out), torch.sin(held_out))
        trainmaster.log(step, {"val/loss": error})

    stopping = trainmaster.should_stop()
    if stopping or step == steps or trainmaster.checkpoint_due(step, every=100):
        trainmaster.save_checkpoint({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, step)
    if stopping:
        break
