"""What a row of the table of permissions is, and the rows of letters that many share."""

from dataclasses import dataclass, field
from typing import Any

from tests.webapp.world import World

# Rows that many share, in the order of PEOPLE.
EVERYBODY = "Y Y Y Y Y Y Y"
SIGNED_IN = "L Y Y Y Y Y Y"
OF_TEAM = "L N Y Y Y Y Y"
MEMBERS = "L N F Y Y Y Y"
OWN_OR_LEAD = "L N F F Y Y Y"
LEADS = "L N F F F Y Y"
OPERATORS = "L F F F F F Y"
ADMINS = "L N F F F F Y"
WHILE_RUNNING = "L N F F 400 400 400"  # who may cancel it, but the job of these tests does not run
WHILE_OUT = "L F F F F F 400"  # operators, but the node of these tests is in service
WHILE_STOPPING = "L N F F F F 400"  # operators, but the job of these tests is not being stopped

NO_TENSORBOARDS = (
    "L N 503 503 503 503 503"  # the platform of the tests runs none; whoever may open one hears that
)


@dataclass(frozen=True)
class Row:
    """`get /jobs/<str:job_id>/`, and what each person gets. `{…}` in the address and the body are of the World."""

    method: str
    pattern: str
    expected: str
    address: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def api(self) -> bool:
        return self.pattern.startswith("api/v1/")

    def url(self, world: World) -> str:
        return "/" + (self.address or self.pattern).format(**vars(world))

    def data(self, world: World) -> dict[str, Any]:
        return {name: _filled(value, world) for name, value in self.body.items()}


def _filled(value: Any, world: World) -> Any:
    if isinstance(value, list):
        return [_filled(one, world) for one in value]
    return value.format(**vars(world)) if isinstance(value, str) else value


def api_row(
    method: str, path: str, expected: str, address: str = "", body: dict[str, Any] | None = None
) -> Row:
    where = f"api/v1/{address}" if address else ""
    return Row(method, f"api/v1/{path}", expected.replace("L", "A"), where, body or {})
