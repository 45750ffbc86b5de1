"""Bootstrap tokens and node credentials: how a machine proves that it may be a node, and which one."""

import hmac
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from platform_core.cluster.health import NodeState
from platform_core.errors import TrainmasterError
from webapp.accounts.credentials import digest, new_text
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.nodes.models import BootstrapToken, Node

CREDENTIAL_PREFIX = "tmn_"
BOOTSTRAP_PREFIX = "tmb_"
HOUR_MS = 3_600_000
MAX_HOURS = 24 * 30


@dataclass(frozen=True, slots=True)
class NewBootstrapToken:
    id: int
    name: str
    text: str
    expires_ms: int


def new_credential() -> tuple[str, str]:
    """The text for the node and the digest that is kept."""
    text = new_text(CREDENTIAL_PREFIX)
    return text, digest(text)


def check_bootstrap_token(text: str) -> None:
    fixed = settings.BOOTSTRAP_TOKEN
    if fixed and hmac.compare_digest(digest(text), digest(fixed)):
        return
    living = BootstrapToken.objects.filter(digest=digest(text), revoked_ms=None, expires_ms__gt=now_ms())
    if not living.exists():
        raise TrainmasterError("bootstrap_token_invalid")


def node_of(credential: str) -> str:
    """The node whose credential this is."""
    node = (
        Node.objects.filter(credential_digest=digest(credential)).only("id", "hostname", "revoked_ms").first()
    )
    if node is None:
        raise TrainmasterError("credential_invalid")
    if node.revoked_ms is not None:
        raise TrainmasterError("credential_revoked", node=node.hostname)
    return node.id


def returning(hostname: str, node_id: str, earlier_credential: str) -> Node | None:
    """The locked node that joins again; None for a new one. A token alone takes the place of no other node."""
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id, hostname=hostname).first()
    if node is None:
        return None
    if node.revoked_ms is not None:
        raise TrainmasterError("credential_revoked", node=hostname)
    # A node without the agent is given neither jobs nor secrets, and goes by the name that it chose.
    known = node.transfer_port == 0 or hmac.compare_digest(node.credential_digest, digest(earlier_credential))
    if not (known or node.rejoin_allowed):
        raise TrainmasterError(
            "rejoin_refused" if node.state == NodeState.LOST else "node_alive", node=hostname
        )
    return node


@transaction.atomic
def create_bootstrap_token(actor: Actor, name: str, hours: int) -> NewBootstrapToken:
    require(actor, "node.operate")
    if not name.strip() or len(name) > 80:
        raise TrainmasterError("request_invalid", what="The name", why="it must have 1 to 80 characters")
    if not 1 <= hours <= MAX_HOURS:
        raise TrainmasterError(
            "request_invalid", what=f"{hours} hours", why=f"a token lives 1 to {MAX_HOURS} hours"
        )
    text, now = new_text(BOOTSTRAP_PREFIX), now_ms()
    token = BootstrapToken.objects.create(
        name=name.strip(), digest=digest(text), created_ms=now, expires_ms=now + hours * HOUR_MS
    )
    events.record(
        "BootstrapTokenCreated",
        f"token:bootstrap-{token.pk}",
        actor=actor.name,
        cause=token.name,
        data={"name": token.name},
    )
    return NewBootstrapToken(token.pk, token.name, text, token.expires_ms)


@transaction.atomic
def revoke_bootstrap_token(actor: Actor, token_id: int) -> None:
    require(actor, "node.operate")
    if not BootstrapToken.objects.filter(pk=token_id, revoked_ms=None).update(revoked_ms=now_ms()):
        raise TrainmasterError("not_found", what="bootstrap token of that number")
    events.record("BootstrapTokenRevoked", f"token:bootstrap-{token_id}", actor=actor.name)
