"""A launch that tests change in one place or two."""

from __future__ import annotations

from platform_core.jobs.spec import CheckpointPolicy
from platform_core.node.wanted import Launch

LAUNCH = Launch(
    job_id="job-a",
    job_name="a",
    team="",
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
    cpus_per_gpu=1,
    memory_per_gpu_bytes=0,
    checkpoint=CheckpointPolicy(),
    hyperparameters_json="{}",
    checkpoint_upload_url="",
)
