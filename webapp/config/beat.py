"""What runs by the clock. A task that waited longer than its next turn expires: the next one does its work."""

from typing import Any

from celery.schedules import crontab

# Name → task, seconds between two turns.
TURNS: dict[str, tuple[str, int]] = {
    "evaluate-alerts": ("alerts.evaluate", 15),
    "measure-service-levels": ("service_levels.measure", 30),
    "deliver-notices": ("alerts.deliver", 15),
    "deliver-mail": ("accounts.deliver_mail", 30),
    "predict": ("scheduling.predict", 10),
    "coordinate-deployments": ("deployments.coordinate", 2),
    "coordinate-sweeps": ("sweeps.coordinate", 2),
    "coordinate-evaluations": ("evaluations.coordinate", 5),
    "measure-exports": ("registry.measure_exports", 10),
    "coordinate-rollouts": ("rollouts.coordinate", 2),
    "coordinate-serving": ("serving.coordinate", 2),
    "publish-collected": ("serving.publish_collected", 600),
    "coordinate-retraining": ("retraining.coordinate", 10),
    "archive-logs": ("jobs.archive_logs", 30),
    "retain-checkpoints": ("checkpoints.retain", 60),
    "continue-registrations": ("datasets.continue_registrations", 60),
    "follow-datasets": ("datasets.follow", 60),
    "set-checkpoint-intervals": ("checkpoints.set_intervals", 30),
    "account-storage": ("storage.account", 1800),
    "ask-hashers": ("storage.ask_hashers", 10),
    "move-storage": ("storage.move", 600),
    "retain-storage": ("storage.retain", 600),
    "clean-storage": ("storage.clean", 600),
    "scrub-store": ("storage.scrub", 600),
    "sample-shares": ("quotas.sample_shares", 60),
    "compact-metrics": ("metrics.sweep", 60),
    "retain-metrics": ("metrics.retain", 600),
    "end-silent-runs": ("experiments.end_silent_runs", 60),
    "measure-runs": ("experiments.measure", 60),
    "compare-plans": ("experiments.compare_plans", 60),
    "remove-runs": ("experiments.remove_deleted", 600),
    "sample-utilisation": ("jobs.sample_utilisation", 15),
}


def beat_schedule(tick_seconds: int) -> dict[str, dict[str, Any]]:
    turns = {"tick": ("scheduling.tick", tick_seconds), **TURNS}
    return {
        "weekly-report": {
            "task": "pages.mail_report",
            "schedule": crontab(hour=6, minute=0, day_of_week="mon"),
        },
        **{
            name: {"task": task, "schedule": float(seconds), "options": {"expires": seconds}}
            for name, (task, seconds) in turns.items()
        },
    }
