"""The form of a job, made from the description of its fields, and read back into the mapping of a job file."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.jobs.fields import Field, Group
from platform_core.jobs.spec import FIELDS, given

CPU = "cpu"  # its capacity is counted in slots, that of other types in GPUs
# What a link to a clone may say differently, such as what would start it now.
CHANGEABLE = (
    "num_gpus", "min_gpus", "max_runtime_hours", "gpu_type", "strategy", "node_labels", "tolerations", "excluded_nodes",
    "max_racks", "resume_from",
)  # fmt: skip
_NUMBERS = ("integer", "number")
_EMPTY = {"code": "No code: the command is on the nodes", "resume_from": "Step 0"}
_WIDE = ("command", "hyperparameters", "environment", "node_labels", "resume_from", "container_image")


@dataclass(frozen=True, slots=True)
class Option:
    value: str
    label: str
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """One field as the page shows it; its label counts in GPUs or in slots, by the type that is chosen."""

    name: str
    label: str
    gpu_label: str
    slot_label: str
    help: str
    kind: str  # text, number, area, check or select
    step: str
    value: str
    placeholder: str
    problem: str
    options: Sequence[Option]  # to choose from, or for text to complete it
    empty: str  # what a choice of nothing is called
    wide: bool
    mono: bool


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    names: str
    controls: Sequence[Control]
    open: bool


def controls(
    form: Mapping[str, str], problems: Mapping[str, str], options: Mapping[str, Sequence[Option]]
) -> dict[str, Control]:
    """By the names that they have in the page."""
    first = options.get("gpu_type", [])[:1]
    gpu_type = form.get("gpu_type") or "".join(option.value for option in first)
    labels = labels_for(gpu_type)
    made = (_control(name, field, labels, form, problems, options) for name, field in FIELDS.items())
    return {control.name: control for control in made}


def sections(controls: Mapping[str, Control]) -> list[Section]:
    """The advanced groups; open where something is wrong or is not as by default."""
    made = []
    for group in list(Group)[1:]:
        inside = [controls[in_page(name)] for name, field in FIELDS.items() if field.group is group]
        names = ", ".join(control.label for control in inside)
        is_open = any(control.problem or _differs(control) for control in inside)
        made.append(Section(group.value, names, inside, is_open))
    return made


def _control(
    name: str,
    field: Field,
    labels: Mapping[str, str],
    form: Mapping[str, str],
    problems: Mapping[str, str],
    options: Mapping[str, Sequence[Option]],
) -> Control:
    schema = field.kind.schema
    choices = list(options.get(name, [Option(value, value) for value in schema.get("enum", ())]))
    kind = {"object": "area", "boolean": "check"}.get(schema.get("type", ""), "text")
    if schema.get("type") in _NUMBERS:
        kind = "number"
    if field.default is True:  # an unchecked box sends nothing, which would mean the default
        choices, kind = [Option("true", "yes"), Option("false", "no")], "select"
    if "enum" in schema or field.kind.names or name in ("team", "code", "gpu_type", "resume_from"):
        kind = "select"
    value = str(form.get(in_page(name), ""))
    if not value and field.default and (kind == "select" or field.group is Group.BASICS):
        value = _text(field.plain_default)
    if kind == "select" and value and value not in [option.value for option in choices]:
        choices.append(Option(value, value))
    return Control(
        name=in_page(name),
        label=labels[name],
        gpu_label=field.label,
        slot_label=_in_slots(name),
        help=field.help.replace("`", ""),
        kind=kind,
        step="any" if schema.get("type") == "number" else "1",
        value=value,
        placeholder=_default(field) or ("all" if field.like else field.example),
        problem=problems.get(in_page(name), ""),
        options=choices,
        empty=_EMPTY.get(name, ""),
        wide=name in _WIDE,
        mono=kind == "area" or name in ("command", "container_image", "checkpoint.path", "secrets"),
    )


def _default(field: Field) -> str:
    plain = field.plain_default
    return "" if plain in (None, "", [], {}) or plain is False else _text(plain)


def _text(plain: object) -> str:
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _differs(control: Control) -> bool:
    field = next(field for name, field in FIELDS.items() if in_page(name) == control.name)
    return control.value not in ("", _default(field))


def in_page(name: str) -> str:
    """`checkpoint.path` is `checkpoint_path` in the page."""
    return name.replace(".", "_")


def _in_slots(name: str) -> str:
    label = FIELDS[name].label
    return {"num_gpus": "CPU slots", "gpu_type": label}.get(name, label.replace("GPU", "slot"))


def labels_for(gpu_type: str) -> dict[str, str]:
    """What the page calls the fields of a job on this type."""
    return {name: _in_slots(name) if gpu_type == CPU else field.label for name, field in FIELDS.items()}


def quoted(gpu_type: str) -> dict[str, str]:
    """The labels as a sentence names them."""
    return {name: f"“{label}”" for name, label in labels_for(gpu_type).items()}


def problems_in_page(problems: Mapping[str, str]) -> dict[str, str]:
    """By the names in the page; one inside a field, such as `hyperparameters.lr`, stands at that field."""
    placed: dict[str, str] = {}
    for name, sentence in problems.items():
        known = name if name in FIELDS else name.partition(".")[0]
        place = in_page(known) if known in FIELDS else ""
        placed[place] = f"{placed[place]} {sentence}" if place in placed else sentence
    return placed


def mapping_of(form: Mapping[str, str]) -> dict[str, Any]:
    """What was filled in, under the names of a job file; empty fields are left to their defaults."""
    mapping: dict[str, Any] = {}
    for name, field in FIELDS.items():
        text = form.get(in_page(name), "").strip()
        if text:
            parent, _, inside = name.rpartition(".")
            place = mapping.setdefault(parent, {}) if parent else mapping
            place[inside] = _value(field, text)
    return mapping


def _value(field: Field, text: str) -> Any:
    schema = field.kind.schema
    match schema.get("type"):
        case "integer" | "number":
            return number(text)
        case "boolean":
            return text in {"true", "on", "1"}
        case "array":
            return text.split()
        case "object":
            return pairs(text, scalars="oneOf" in schema["additionalProperties"])
    return number(text) if field.kind.names else text


def number(text: str) -> int | float | str:
    """A number if it is one; otherwise the text, which the core then refuses with its sentence."""
    for convert in (int, float):
        try:
            return convert(text.strip())
        except ValueError:
            continue
    return text.strip()


def pairs(text: str, *, scalars: bool) -> dict[str, Any]:
    """`name=value` lines; `scalars` that look like numbers or booleans become those."""
    lines = (line.partition("=") for line in filter(None, map(str.strip, text.splitlines())))
    return {name.strip(): _scalar(value.strip()) if scalars else value.strip() for name, _, value in lines}


def _scalar(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), number(text))


def form_of(mapping: Mapping[str, Any]) -> dict[str, str]:
    """The other way, for a clone: what a job says besides the defaults, as the form shows it."""
    form: dict[str, str] = {}
    for name, value in given(mapping).items():
        inside = value.items() if name not in FIELDS else [("", value)]
        form |= {in_page(f"{name}.{key}" if key else name): _shown(name, item) for key, item in inside}
    return form


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}={_shown('', item)}" for key, item in value.items())
    if isinstance(value, list):
        return shlex.join(value) if name == "command" else " ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
