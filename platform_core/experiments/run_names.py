"""Names of runs that stand side by side and cannot be confused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from platform_core.experiments.comparison import MISSING, flatten

MOST_PARAMETERS = 2  # added to a name
MOST_TEXT = 40
_SHORT_ID = 8


@dataclass(frozen=True, slots=True)
class Named:
    id: str
    name: str
    parameters: Mapping[str, object] = field(default_factory=dict)


def distinct_names(runs: Sequence[Named]) -> dict[str, str]:
    """Returns one name a run id. Runs that share a name get the parameters that differ, and if that is not enough
    the end of their id."""
    same_name: dict[str, list[Named]] = {}
    for run in runs:
        same_name.setdefault(run.name, []).append(run)
    names = {run.id: run.name or f"run {run.id[-_SHORT_ID:]}" for run in runs}
    for group in same_name.values():
        if len(group) > 1:
            names |= _with_parameters(group)
    uses = Counter(names.values())
    return {
        run.id: names[run.id] if uses[names[run.id]] == 1 else f"{names[run.id]} · {_end(run.id, runs)}"
        for run in runs
    }


def _end(run_id: str, runs: Sequence[Named]) -> str:
    """The end of the id that no other run shares."""
    return next(
        (
            run_id[-length:]
            for length in range(_SHORT_ID, len(run_id))
            if sum(run.id.endswith(run_id[-length:]) for run in runs) == 1
        ),
        run_id,
    )


def _with_parameters(group: Sequence[Named]) -> dict[str, str]:
    flat = [flatten(run.parameters) for run in group]
    texts = {
        name: [_text(settings.get(name, MISSING)) for settings in flat] for name in sorted(set().union(*flat))
    }
    differing = sorted(
        (name for name, values in texts.items() if len(set(values)) > 1),
        key=lambda name: -len(set(texts[name])),
    )
    chosen: list[str] = []
    for name in differing[:MOST_PARAMETERS]:
        chosen.append(name)
        if len(set(zip(*(texts[part] for part in chosen), strict=True))) == len(group):
            break
    labels = [", ".join(f"{name}={texts[name][place]}" for name in chosen) for place in range(len(group))]
    return {
        run.id: f"{run.name or 'run'} · {label}" if label else run.name or "run"
        for run, label in zip(group, labels, strict=True)
    }


def _text(value: object) -> str:
    text = "none" if value is MISSING else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
