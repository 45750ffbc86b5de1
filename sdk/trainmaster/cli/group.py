"""All commands of the command line."""

from trainmaster.cli.commands import Commands
from trainmaster.cli.datasets import dataset
from trainmaster.cli.deployments import deploy, deployments, pin, preheat, retry
from trainmaster.cli.jobs import cancel, jobs, show
from trainmaster.cli.login import login
from trainmaster.cli.logs import logs
from trainmaster.cli.models import models, register
from trainmaster.cli.nodes import nodes
from trainmaster.cli.rollouts import promote, rollback
from trainmaster.cli.submit import submit

main = Commands(
    help="Submit training jobs, follow them, and bring models to nodes.",
    commands=[
        login, submit, jobs, show, logs, cancel, dataset, models, register, deploy, preheat, pin, retry, deployments,
        promote, rollback, nodes,
    ],
)  # fmt: skip
