"""Nodes for operators to look at; what may be done to them stands on their pages."""

from django.contrib import admin

from webapp.accounts.admin import ReadOnly
from webapp.nodes.models import BootstrapToken, MaintenanceWindow, Node, Slot


@admin.register(Node)
class NodeAdmin(ReadOnly):
    list_display = (
        "hostname",
        "id",
        "rack",
        "gpu_type",
        "state",
        "state_reason",
        "drain_requested",
        "agent_version",
    )
    list_filter = ("state", "gpu_type", "rack")
    search_fields = ("hostname", "id")
    exclude = ("credential_digest",)


@admin.register(Slot)
class SlotAdmin(ReadOnly):
    list_display = ("node", "index", "name", "attempt_id")
    search_fields = ("attempt_id", "node__hostname")


@admin.register(MaintenanceWindow)
class MaintenanceWindowAdmin(ReadOnly):
    list_display = ("id", "begin_ms", "end_ms", "reason", "booked_by", "begun", "over")
    list_filter = ("over",)


@admin.register(BootstrapToken)
class BootstrapTokenAdmin(ReadOnly):
    list_display = ("name", "created_ms", "expires_ms", "revoked_ms")
    exclude = ("digest",)
