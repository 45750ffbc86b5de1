"""Who gets what of every page of alerts."""

from collections.abc import Iterator

from tests.webapp.permission_rows import LEADS, MEMBERS, OF_TEAM, SIGNED_IN, Row


def alert_rows() -> Iterator[Row]:
    yield Row("get", "alerts/", SIGNED_IN)
    yield Row("get", "alerts/<str:alert_id>/", OF_TEAM, "alerts/{alert}/")
    yield Row(
        "post", "alerts/<str:alert_id>/acknowledge/", MEMBERS, "alerts/{alert}/acknowledge/", {"note": "mine"}
    )
    yield Row("get", "alerts/silences/", SIGNED_IN)
    silence = {"team": "vision", "rule": "job_underused", "hours": "1", "reason": "a known trial"}
    yield Row("post", "alerts/silences/", MEMBERS, body=silence)
    yield Row("post", "alerts/silences/<int:silence_id>/end/", MEMBERS, "alerts/silences/{silence}/end/")
    yield Row("get", "alerts/rules/", SIGNED_IN)
    rule, team_rule = "alerts/rules/<str:code>/", "alerts/rules/{alert_rule}/"
    yield Row("get", rule, OF_TEAM, team_rule)
    saved = {"title": "Slow", "condition": "job.slowdown > 20 for 5m", "severity": "warning", "enabled": "on"}
    yield Row("post", rule, LEADS, team_rule, saved)
    yield Row("post", f"{rule}delete/", LEADS, f"{team_rule}delete/")
    yield Row("get", "alerts/channels/", SIGNED_IN)
    mail = {"team": "vision", "name": "all of us", "kind": "mail", "address": "vision@example.org"}
    yield Row("post", "alerts/channels/", LEADS, body={**mail, "least": "warning"})
    channel, of = "alerts/channels/<int:channel_id>", "alerts/channels/{alert_channel}"
    yield Row("post", f"{channel}/test/", LEADS, f"{of}/test/")
    yield Row("post", f"{channel}/delete/", LEADS, f"{of}/delete/")
