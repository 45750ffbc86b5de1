"""The delay of alerts as a service level: from the condition being met for long enough to the receiver's acceptance."""

from __future__ import annotations

from django.db.models import Min

from platform_core.alerting.machine import AlertState
from platform_core.service_levels.budget import Counts
from webapp.alerts import catalogue
from webapp.alerts.models import Alert
from webapp.service_levels.values import Period


def read(period: Period) -> Counts:
    """Of the first notice of each alert at each channel; channels that were deleted are left out.

    The time for which a silence or another alert held a notice back is nobody's delay, so it is not counted.
    """
    notices = Alert.objects.filter(notices__state=AlertState.FIRING, notices__channel__deleted_ms=None)
    firsts = notices.values("pk", "notices__channel").annotate(
        made_ms=Min("notices__made_ms"), sent_ms=Min("notices__sent_ms")
    )
    rows = firsts.filter(made_ms__gte=period.from_ms, made_ms__lt=period.to_ms).order_by()
    lasting_ms = {code: rule.condition.for_ms for code, rule in catalogue.rules().items()}
    judged: list[bool] = []
    for rule, began_ms, fired_ms, made_ms, sent_ms in rows.values_list(
        "rule", "began_ms", "fired_ms", "made_ms", "sent_ms"
    ):
        evaluated_ms = max(0, (fired_ms or began_ms) - began_ms - lasting_ms.get(rule, 0))
        delay_ms = evaluated_ms + (period.at_ms if sent_ms is None else sent_ms) - made_ms
        if sent_ms is not None or delay_ms > period.limit_ms:  # the others have time left
            judged.append(delay_ms <= period.limit_ms)
    return Counts(sum(judged), len(judged))
