"""The sets of values that the OpenAPI document names; `ENUM_NAME_OVERRIDES` in the settings lists them."""

from platform_core.alerting import rules as alert_rules
from platform_core.cluster import device_health, health
from platform_core.distribution.deployments import deployment
from platform_core.distribution.planning import observed_rates
from platform_core.distribution.rollouts import states as rollout_states
from platform_core.evaluations import states as evaluation_states
from platform_core.experiments import reproduction
from platform_core.experiments import states as run_states
from platform_core.jobs import ends, retention_policy, stacks, states
from platform_core.lineage.graph import Kind
from platform_core.registry import exports, gates
from platform_core.retraining import cycle as retraining
from platform_core.retraining.triggers import Trigger
from platform_core.serving import states as serving_states
from platform_core.storage import leftovers
from platform_core.sweeps import states as sweep_states
from webapp.accounts.models import Role
from webapp.alerts.models import Channel
from webapp.artifacts.queries import LIMITED_KINDS
from webapp.artifacts.services import UPLOAD_KINDS
from webapp.datasets.models import STATES as SNAPSHOT_STATES
from webapp.deployments.delivery.planning import STRATEGIES
from webapp.jobs.models import Hang
from webapp.jobs.profiles import KINDS as PROFILE_KINDS
from webapp.registry.models import STAGES

JobState = list(states.JobState)
RunState = list(run_states.RunState)
RunView = ["active", "archived", "deleted", "all"]
RunEnd = ["succeeded", "failed", "cancelled"]
RunSource = ["api", "mlflow", "sdk", "tensorboard", "wandb"]
RunAction = ["archive", "delete", "restore", "tag"]
NodeState = [*health.NodeState, "revoked"]
ModelVersionState = ["registering", "ready", "failed", "external"]
DeploymentState = [*deployment.DeploymentState, deployment.WorkerState.EVICTED]
SweepState = list(sweep_states.SweepState)
TrialState = list(sweep_states.TrialState)
RolloutState = list(rollout_states.RolloutState)
WorkerState = ["idle", "receiving", "verifying", "complete", "failed"]
DistributionStrategy = STRATEGIES
RateBasis = list(observed_rates.Basis)
ProfileKind = sorted(PROFILE_KINDS)
DryRunOutcome = ["starts", "waits", "refused"]
TeamRole = Role.choices
UploadKind = UPLOAD_KINDS
EndReason = list(ends.EndReason)
RestartBudget = ["script", "infrastructure", "none"]
FindingStage = list(device_health.Stage)
FindingSeverity = list(device_health.Severity)
FindingConsequence = list(device_health.Consequence)
HangStage = Hang.Stage.choices
StackActivity = list(stacks.Activity)
ModelVersionStage = STAGES
ReproductionSubject = reproduction.SUBJECTS
MetricAgreement = list(reproduction.Agreement)
EndpointState = list(serving_states.EndpointState)
ReplicaState = list(serving_states.ReplicaState)
AlertSeverity = list(alert_rules.Severity)
ChannelKind = Channel.Kind.values
SnapshotState = list(SNAPSHOT_STATES)
AccessDecision = ["approve", "refuse", "revoke"]
MetricDirection = list(retention_policy.Direction)
MetricGoal = list(gates.Direction)
LineageKind = list(Kind)
LeftoverKind = list(leftovers.LeftoverKind)
LimitedKind = list(LIMITED_KINDS)
ResultsMeasurer = list(gates.Measurer)
ResultsSource = ["server", "person"]
RetrainingState = list(retraining.CycleState)
RetrainingTrigger = list(Trigger)
EvaluationState = list(evaluation_states.EvaluationState)
ExportFormat = list(exports.Format)
ExportDtype = list(exports.Dtype)
