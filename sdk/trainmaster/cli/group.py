"""All commands of the command line, by the sections of its help."""

import click

from trainmaster.cli import output
from trainmaster.cli.account import quota, teams, whoami
from trainmaster.cli.alerts import alerts
from trainmaster.cli.chargeback import chargeback
from trainmaster.cli.checkpoints import checkpoints
from trainmaster.cli.commands import Commands
from trainmaster.cli.completion import completion
from trainmaster.cli.datasets import dataset
from trainmaster.cli.deployments import deploy, deployments, pin, preheat, retry
from trainmaster.cli.efficiency import efficiency, profile
from trainmaster.cli.endpoints import endpoints
from trainmaster.cli.experiments import compare, experiments
from trainmaster.cli.exports import export
from trainmaster.cli.gates import gate
from trainmaster.cli.imports import import_group
from trainmaster.cli.jobs import cancel, jobs, show
from trainmaster.cli.lineage import lineage
from trainmaster.cli.login import login
from trainmaster.cli.logs import logs
from trainmaster.cli.model_export import export_model
from trainmaster.cli.models import models, register
from trainmaster.cli.nodes import nodes
from trainmaster.cli.planner import plan
from trainmaster.cli.project import init
from trainmaster.cli.queue import queue
from trainmaster.cli.repetition import reproduction, rerun
from trainmaster.cli.retraining import retrain
from trainmaster.cli.rollouts import promote, rollback
from trainmaster.cli.runs import runs
from trainmaster.cli.service_levels import service_levels
from trainmaster.cli.stacks import stacks
from trainmaster.cli.storage import storage
from trainmaster.cli.submit import submit
from trainmaster.cli.suites import suite
from trainmaster.cli.sweeps import sweep
from trainmaster.cli.sync import sync
from trainmaster.cli.targets import targets

SECTIONS = {
    "Jobs": [init, plan, submit, rerun, reproduction, jobs, queue, show, logs, checkpoints, cancel],
    "Experiments": [experiments, runs, compare, sweep, sync, import_group, export],
    "Data and models": [
        dataset, models, export_model, register, targets, gate, suite, lineage, deploy, deployments, promote, rollback,
        retry, preheat, pin, endpoints, retrain,
    ],
    "Cluster": [nodes, alerts, service_levels, quota, storage, chargeback],
    "Account": [login, whoami, teams, completion],
}  # fmt: skip
# One line each: their modules import the whole server or agent, too slow for a list of commands.
OPERATORS = {
    "agent": "Run the agent of a node: it joins the cluster, trains, and receives models.",
    "backup": "Write a backup of a platform.",
    "certs": "Make the TLS certificates of gateway and agents.",
    "demo": "Start a cluster on this machine with people, jobs and a deployment in it.",
    "replay-round": "Plan a recorded scheduling round again and compare the decision.",
    "restore": "Restore a platform from a backup.",
    "up": "Start the whole platform on this machine.",
}

main = Commands(
    SECTIONS, OPERATORS, help="Submit training jobs, follow them, compare runs, and deploy models."
)
jobs.add_command(stacks)  # named here so that its module is loaded
jobs.add_command(profile)
runs.add_command(efficiency)
main = output.no_color(main)
main = click.version_option(
    package_name="trainmaster", prog_name="trainmaster", message="%(prog)s %(version)s"
)(main)
