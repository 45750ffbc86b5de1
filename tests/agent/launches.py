"""A launch that tests change in one place or two."""

from __future__ import annotations

from agent.wanted import Launch

LAUNCH = Launch(
    job_id="job-a",
    job_name="a",
    attempt=1,
    command=("python", "train.py"),
    strategy="ddp",
    container_image="",
    environment=(),
    secrets=(),
    nodes=1,
    node_rank=0,
    slots=(0,),
    master_address="127.0.0.1",
    master_port=29500,
    cpus_per_slot=1,
    memory_per_slot_bytes=0,
    code=None,
    dataset=None,
    resume=None,
    checkpoint_interval_steps=0,
    checkpoint_interval_seconds=0,
    checkpoint_keep_last=3,
    checkpoint_path="checkpoints",
    hyperparameters_json="{}",
    seed=None,
    checkpoint_upload_url="",
)
