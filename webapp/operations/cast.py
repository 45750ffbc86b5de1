"""The people and teams of the demonstration. The tests use the same cast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    username: str
    full_name: str
    team: str  # '' for none
    role: str
    story: str

    @property
    def password(self) -> str:
        """Good for a demonstration on one's own machine, and easy to type."""
        return f"{self.username}-demo"


CAST = (
    Person("alice", "Alice Ito", "vision", "lead", "leads team vision"),
    Person("bob", "Bob Novak", "vision", "member", "is a member of team vision"),
    Person("carol", "Carol Mensah", "nlp", "member", "is a member of team nlp and sees nothing of vision"),
    Person("root", "Robin Ott", "", "", "operates the cluster"),
)
TEAMS = {"vision": ("Vision", "research"), "nlp": ("Language", "product")}
# With their weights; each has one team, and so the page of shares shows what a weight comes to.
DEPARTMENTS = {"research": ("Research", 2), "product": ("Product", 1)}
# Of the eight slots of the demonstration's four nodes: guaranteed, and at most with borrowing.
QUOTAS = {"vision": (4, 8), "nlp": (2, 4)}
SLOTS = 8
DOLLARS_PER_HOUR = 0.04
