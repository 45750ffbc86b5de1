"""How numbers, times and states look on a page. Views hand over raw integers; templates do no sums."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from platform_core import units
from webapp.pages.markdown import render as render_markdown
from webapp.pages.wording import slot_noun

register = template.Library()

Moment = int | float | datetime

# Every state of the platform and the tone that repeats its word: run, ok, wait, bad or off.
STATE_TONES = {
    "pending": "wait", "scheduled": "run", "initializing": "run", "running": "run", "checkpointing": "run",
    "preempted": "wait", "succeeded": "ok", "failed": "bad", "cancelled": "off", "stopping": "wait",
    "ready": "ok", "suspect": "wait", "lost": "bad", "draining": "wait", "drained": "off",
    "init": "run", "downloading": "run", "distributing": "run", "verifying": "run", "complete": "ok",
    "idle": "off", "receiving": "run", "assigned": "off", "preparing": "run", "exited": "off",
    "healthy": "ok", "degraded": "wait", "active": "ok", "expired": "off", "revoked": "bad", "verified": "ok",
    "damaged": "bad", "recalled": "bad", "good": "ok", "met": "ok", "missed": "bad", "saving": "run", "evicted": "off",
    "canary": "run", "holding": "wait", "promoting": "run", "rolled_back": "off", "waiting": "off", "switching": "run",
    "returning": "wait", "returned": "off", "slots idle": "wait",
    "paused": "wait", "out_of_budget": "wait", "finished": "ok", "recovered": "ok", "failed again": "bad",
    "listing": "run", "hashing": "run", "unchanged": "off", "requested": "wait", "approved": "ok", "refused": "bad",
    "firing": "bad", "no_data": "wait", "resolved": "ok", "critical": "bad", "warning": "wait",
    "done": "ok", "proposed": "off", "submitted": "wait", "pruned": "off",
    "submitting": "wait", "training": "run", "evaluating": "run", "proven": "wait", "deploying": "run",
    "promoted": "ok", "accepted": "ok",
    "starting": "run", "serving": "ok", "unavailable": "bad", "unhealthy": "bad", "stopped": "off", "ended": "off",
}  # fmt: skip

# The end of an event's kind says how it went; anything else is grey.
EVENT_TONES = {
    "bad": (
        "Failed",
        "Lost",
        "Refused",
        "Revoked",
        "Corrupt",
        "Corrupted",
        "Damaged",
        "GaveUp",
        "Mismatch",
        "Expired",
        "Hung",
        "Fault",
    ),
    "wait": (
        "Suspect",
        "Preempted",
        "Requested",
        "Reached",
        "Draining",
        "Waiting",
        "Silence",
        "Idle",
        "Lengthened",
    ),
    "ok": (
        "Succeeded",
        "Complete",
        "Completed",
        "Saved",
        "Ready",
        "Resumed",
        "Verified",
        "Registered",
        "Joined",
        "Activated",
    ),
    "run": ("Placed", "Started", "Running", "Scheduled", "Assigned", "Distributing", "Downloading"),
}


@register.filter
def tone(state: object) -> str:
    return STATE_TONES.get(str(state), "off")


@register.filter
def plural(count: int, noun: str) -> str:
    return units.plural(count, noun)


@register.filter
def resources(count: int, gpu_type: str) -> str:
    """ "8 GPUs", or "2 slots" where the type is no GPU."""
    return units.plural(count, slot_noun([gpu_type]))


@register.filter
def event_tone(kind: object) -> str:
    return next((tone for tone, ends in EVENT_TONES.items() if str(kind).endswith(ends)), "")


NODE_ID_LENGTH = len("node-") + 16
CHECKPOINT_ID = re.compile(r"\bcheckpoint ckpt-\w+")

# Where the subject of an event is looked at.
SUBJECT_PAGES = {
    "job": "jobs:detail", "node": "nodes:node", "deployment": "deployments:detail",
    "alert": "alerts:detail", "alert-rule": "alerts:runbook",
    "service-level": "service_levels:level",
    "team": "accounts:team", "quota": "accounts:team", "experiment": "experiments:detail", "run": "runs:detail",
}  # fmt: skip


@register.filter
def kind_words(event: Any) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", event.kind).lower()


# Causes of these are sentences that say it all; those of others need the kind's words before them.
TOLD_BY_CAUSE = {"job", "deployment"}


@register.filter
def happened(event: Any) -> str:
    """What an event row says in words: "node lost: no heartbeat for 30 s"."""
    words = kind_words(event)
    if event.subject_kind not in TOLD_BY_CAUSE or not event.cause:
        return f"{words}: {event.cause}" if event.cause else words
    sentence = CHECKPOINT_ID.sub("checkpoint", event.cause)
    became = _ended(event) or words.removeprefix("deployment ") * words.startswith("deployment ")
    return f"{became}: {sentence}" if became else sentence


@register.filter
def tone_of(event: Any) -> str:
    return tone(_ended(event)) if _ended(event) else event_tone(event.kind)


def _ended(event: Any) -> str:
    """The last member's end is also the job's: "succeeded", or "pending" when it is to start again."""
    state = (event.data or {}).get("state", "") if event.subject_kind == "job" else ""
    ended = state in {"succeeded", "failed", "cancelled"} and event.kind.startswith(
        ("Member", "Node", "Cancel")
    )
    return str(state) if ended else ""


@register.filter
def by_whom(event: Any) -> str:
    """Who did it, unless the sentence says so already, it is a node telling of itself, or nobody did."""
    kind, _, name = str(event.actor).partition(":")
    name = name or kind
    return "" if kind in ("node", "system") or name in event.cause else name


@register.filter
def who(actor: str) -> str:
    """user:alice is alice; a node that joins has no name yet but its id, so its agent is named."""
    kind, _, name = str(actor).partition(":")
    return "its agent" if name.startswith("node-") and len(name) == NODE_ID_LENGTH else name or kind


@register.filter
def sentence(clause: object) -> str:
    text = str(clause).strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}" if text else ""


@register.simple_tag
def subject(event: Any) -> SafeString:
    label = (event.data or {}).get("name") or event.subject_id
    page = SUBJECT_PAGES.get(event.subject_kind)
    slug = event.team if event.subject_kind == "quota" and event.team else event.subject_id
    try:
        return (
            format_html('<a href="{}">{}</a>', reverse(page, args=[slug]), label)
            if page
            else format_html("<b>{}</b>", label)
        )
    except NoReverseMatch:
        return format_html("<b>{}</b>", label)


@register.simple_tag
def state(value: object, word: str = "") -> SafeString:
    return format_html('<span class="state {}">{}</span>', tone(value), word or str(value))


# Numbers


@register.filter
def duration(milliseconds: int | None) -> str:
    return "–" if milliseconds is None else units.format_duration_ms(int(milliseconds))


@register.filter
def size(number_of_bytes: int | str | None) -> str:
    """A missing variable of a template comes as empty text."""
    return (
        "–" if number_of_bytes is None or number_of_bytes == "" else units.format_bytes(int(number_of_bytes))
    )


@register.filter
def money(micro_dollars: int | None) -> str:
    return "–" if micro_dollars is None else units.format_micro_dollars(int(micro_dollars))


@register.filter
def hours(slot_milliseconds: int | None) -> str:
    """GPU-hours with one digit: 58.5; "<0.1" where that would look like none."""
    if slot_milliseconds is None:
        return "–"
    text = f"{slot_milliseconds / units.HOUR_MS:,.1f}"
    return "<0.1" if text == "0.0" and slot_milliseconds else text


@register.filter
def gpu_seconds(slot_milliseconds: int) -> str:
    return f"{round(slot_milliseconds / 1000):,}"


@register.filter
def number(value: float | str | None) -> str:
    """Thousands apart: 21,620. A missing variable of a template comes as empty text."""
    return "–" if value is None or isinstance(value, str) else f"{value:,}"


@register.filter
def percent(value: float | None) -> str:
    """A share from 0 to 100."""
    return "–" if value is None else f"{value:.0f} %"


@register.filter
def share(value: float | None) -> str:
    """A share from 0 to 1, as a percentage."""
    return percent(None if value is None else 100 * value)


@register.filter
def figure(value: object) -> str:
    """A measured number with four significant digits, as in 1.412, 0.0006 or 3e-07; words pass unchanged."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (abs(value) >= 1000 and value == value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


@register.filter
def markdown(text: str, heading: int = 3) -> SafeString:
    """What people wrote in Markdown, sanitised; its headings begin at this level."""
    return render_markdown(text, heading=heading)


@register.filter
def words(text: str) -> list[str]:
    """For a loop over fixed words of a template."""
    return text.split()


@register.filter
def item(mapping: Mapping[str, Any] | None, key: str) -> Any:
    return (mapping or {}).get(key, "")


# Times: the living is relative, the past absolute; static/js/time.js puts both into the reader's own zone.


def _moment(value: Moment) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromtimestamp(value / 1000, tz=UTC)


@register.simple_tag
def ago(value: Moment | None) -> SafeString | str:
    if not value:
        return "–"
    moment = _moment(value)
    seconds = int((timezone.now() - moment).total_seconds())
    words = f"{_about(seconds)} ago" if seconds >= 0 else f"in {_about(-seconds)}"
    return format_html(
        '<time datetime="{}" data-relative title="{}">{}</time>', moment.isoformat(), _full(moment), words
    )


@register.simple_tag
def since(value: Moment | None) -> SafeString | str:
    """The time that has run since then, still counting: 4 min 51 s."""
    if not value:
        return "–"
    moment = _moment(value)
    words = _seconds(max(0, int((timezone.now() - moment).total_seconds())))
    return format_html(
        '<time datetime="{}" data-since title="since {}">{}</time>', moment.isoformat(), _full(moment), words
    )


@register.simple_tag
def at(value: Moment | None, form: str = "clock") -> SafeString | str:
    """An absolute time: `clock` is 14:02:11, `date` the day, `full` has both."""
    if not value:
        return "–"
    moment = _moment(value)
    words = moment.strftime({"clock": "%H:%M:%S", "date": "%Y-%m-%d"}.get(form, "%Y-%m-%d %H:%M:%S"))
    return format_html(
        '<time datetime="{}" data-at="{}" title="{}">{}</time>',
        moment.isoformat(),
        form,
        _full(moment),
        words,
    )


def _about(seconds: int) -> str:
    """The largest unit alone: 12 s, 3 min, 5 h; days from two days on."""
    for size, unit, least in ((86400, "d", 2 * 86400), (3600, "h", 3600), (60, "min", 60)):
        if seconds >= least:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _seconds(seconds: int) -> str:
    return units.format_duration_ms(seconds * 1000) if seconds else "0 s"


def _full(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


# Addresses: the page itself with other filters, and one of its fragments


@register.simple_tag(takes_context=True)
def here(context: Context, **changes: Any) -> str:
    """This page with other filters and no fragment's name: href="{% here state='failed' %}"."""
    query = context["request"].GET.copy()
    query.pop("block", None)
    return _query(query, changes)


@register.simple_tag(takes_context=True)
def fragment(context: Context, block: str, **changes: Any) -> str:
    """Of one block of this page with its filters, at `address` where forms answer elsewhere: {% fragment 'list' %}."""
    return f"{context.get('address', '')}{_query(context['request'].GET.copy(), {'block': block, **changes})}"


def _query(query: Any, changes: Mapping[str, Any]) -> str:
    for key, value in changes.items():
        if value is None or value == "":
            query.pop(key, None)
        else:
            query[key] = value
    return f"?{query.urlencode()}"


# Small pictures, drawn as SVG attributes because the Content-Security-Policy forbids style attributes


@register.simple_tag
def spark(values: Sequence[float | None] | None, label: str = "") -> SafeString | str:
    known = [(index, value) for index, value in enumerate(values or ()) if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(v for _, v in known), max(v for _, v in known)
    points = " ".join(
        f"{100 * index / (len(values or ()) - 1):.1f},{19 - 18 * (value - low) / ((high - low) or 1):.1f}"
        for index, value in known
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<polyline points="{}"/></svg>',
        label or f"from {figure(known[0][1])} to {figure(known[-1][1])}", points,
    )  # fmt: skip


@register.simple_tag
def strip(runs: Iterable[tuple[int, int, str]], total: int, label: str = "") -> SafeString:
    """A row of chunks: runs are (first, count, 'have' | 'now' | 'bad'); what no run covers is missing."""
    bars = format_html_join(
        "",
        '<rect x="{}" y="0" width="{}" height="10" class="{}"/>',
        ((first, count, kind) for first, count, kind in runs),
    )
    cuts = format_html_join(
        "", '<line x1="{}" x2="{}" y1="0" y2="10"/>', ((n, n) for n in range(1, total if total <= 64 else 0))
    )
    return format_html(
        '<svg class="strip" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img" aria-label="{}">'
        "{}{}</svg>",
        max(1, total), label or f"{total} chunks", bars, cuts,
    )  # fmt: skip
