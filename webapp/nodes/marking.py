"""Labels and taints that operators give to nodes: the scheduler reads them in its next round."""

from collections.abc import Mapping, Sequence

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.jobs.constraints import MAX_NAMES, is_word
from webapp.accounts.permissions import Actor, require
from webapp.events import services as events
from webapp.nodes.models import Node
from webapp.nodes.signals import capacity_changed


@transaction.atomic
def mark(
    actor: Actor,
    node_id: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] | None = None,
) -> Node:
    """All labels and taints that operators give to the node from now on; None leaves them as they are.

    A label of an operator counts before one of the same name that the agent brings.
    """
    require(actor, "node.operate")
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise TrainmasterError("not_found", what=f"node {node_id}")
    before = _words(node)
    if labels is not None:
        node.operator_labels = _checked_labels(labels)
    if taints is not None:
        node.taints = _checked_taints(taints)
    after = _words(node)
    if after != before:
        node.save(update_fields=["operator_labels", "taints"])
        events.record(
            "NodeMarked",
            f"node:{node.id}",
            actor=actor.name,
            cause=f"{after or 'no labels or taints'} (was: {before or 'none'})",
            data={"name": node.hostname},
            notify=("cluster",),
        )
        capacity_changed.send(Node, node_id=node.id)
    return node


def read_labels(text: str) -> dict[str, str]:
    """`name=value`, one a line or with commas between, as a form has them."""
    pairs = [part.strip() for line in text.splitlines() for part in line.split(",") if part.strip()]
    wrong = next((pair for pair in pairs if "=" not in pair), None)
    if wrong is not None:
        raise _refused(f"label {wrong!r}", "it must be NAME=VALUE, such as nvlink=yes")
    return {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs)}


def _checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    for name, value in labels.items():
        if not (isinstance(value, str) and is_word(name) and is_word(value)):
            raise _refused(f"label {name}={value}", "name and value are one word each, such as nvlink=yes")
    _check_count(len(labels), "labels")
    return dict(sorted(labels.items()))


def _checked_taints(taints: Sequence[str]) -> list[str]:
    for taint in taints:
        if not is_word(taint):
            raise _refused(f"taint {taint!r}", "it must be one word, such as lab")
    _check_count(len(taints), "taints")
    return sorted(set(taints))


def _check_count(count: int, what: str) -> None:
    if count > MAX_NAMES:
        raise _refused(f"{count} {what}", f"a node has {MAX_NAMES} at most")


def _words(node: Node) -> str:
    labels = [f"{name}={value}" for name, value in sorted(node.operator_labels.items())]
    return ", ".join([*labels, *(f"taint {taint}" for taint in node.taints)])


def _refused(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)
