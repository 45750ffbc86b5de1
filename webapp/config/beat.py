"""What runs by the clock. A task that waited longer than its next turn expires: the next one does its work."""

from typing import Any

from celery.schedules import crontab


def beat_schedule(tick_seconds: int) -> dict[str, dict[str, Any]]:
    return {
        "tick": {"task": "scheduling.tick", "schedule": tick_seconds, "options": {"expires": tick_seconds}},
        "weekly-report": {
            "task": "pages.mail_report",
            "schedule": crontab(hour=6, minute=0, day_of_week="mon"),
        },
        "evaluate-alerts": {"task": "alerts.evaluate", "schedule": 15.0, "options": {"expires": 15}},
        "measure-service-levels": {
            "task": "service_levels.measure",
            "schedule": 30.0,
            "options": {"expires": 30},
        },
        "deliver-notices": {"task": "alerts.deliver", "schedule": 15.0, "options": {"expires": 15}},
        "deliver-mail": {"task": "accounts.deliver_mail", "schedule": 30.0, "options": {"expires": 30}},
        "predict": {"task": "scheduling.predict", "schedule": 10.0, "options": {"expires": 10}},
        "coordinate-deployments": {
            "task": "deployments.coordinate",
            "schedule": 2.0,
            "options": {"expires": 2},
        },
        "coordinate-sweeps": {"task": "sweeps.coordinate", "schedule": 2.0, "options": {"expires": 2}},
        "coordinate-evaluations": {
            "task": "evaluations.coordinate",
            "schedule": 5.0,
            "options": {"expires": 5},
        },
        "coordinate-rollouts": {"task": "rollouts.coordinate", "schedule": 2.0, "options": {"expires": 2}},
        "coordinate-serving": {"task": "serving.coordinate", "schedule": 2.0, "options": {"expires": 2}},
        "archive-logs": {"task": "jobs.archive_logs", "schedule": 30.0, "options": {"expires": 30}},
        "retain-checkpoints": {"task": "checkpoints.retain", "schedule": 60.0, "options": {"expires": 60}},
        "continue-registrations": {
            "task": "datasets.continue_registrations",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "set-checkpoint-intervals": {
            "task": "checkpoints.set_intervals",
            "schedule": 30.0,
            "options": {"expires": 30},
        },
        "account-storage": {"task": "storage.account", "schedule": 1800.0, "options": {"expires": 1800}},
        "clean-storage": {"task": "storage.clean", "schedule": 600.0, "options": {"expires": 600}},
        "sample-shares": {"task": "quotas.sample_shares", "schedule": 60.0, "options": {"expires": 60}},
        "compact-metrics": {"task": "metrics.sweep", "schedule": 60.0, "options": {"expires": 60}},
        "retain-metrics": {"task": "metrics.retain", "schedule": 600.0, "options": {"expires": 600}},
        "end-silent-runs": {
            "task": "experiments.end_silent_runs",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "measure-runs": {"task": "experiments.measure", "schedule": 60.0, "options": {"expires": 60}},
        "remove-runs": {"task": "experiments.remove_deleted", "schedule": 600.0, "options": {"expires": 600}},
        "sample-utilisation": {
            "task": "jobs.sample_utilisation",
            "schedule": 15.0,
            "options": {"expires": 15},
        },
    }
