"""Quotas, prices and the ledger in Django admin. Quotas are edited on the team page, under their version."""

from django.contrib import admin

from webapp.accounts.admin import Audited, ReadOnly
from webapp.quotas.models import LedgerEntry, Price, Quota


@admin.register(Quota)
class QuotaAdmin(ReadOnly):
    list_display = ("team", "gpu_type", "guaranteed", "maximum", "queue_beyond", "version")
    list_filter = ("gpu_type",)


@admin.register(Price)
class PriceAdmin(Audited):
    list_display = ("gpu_type", "micro_dollars_per_hour")


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnly):
    list_display = (
        "job_id",
        "attempt_id",
        "node_id",
        "team",
        "user",
        "gpu_type",
        "slots",
        "started_ms",
        "ended_ms",
    )
    list_filter = ("team", "gpu_type")
    search_fields = ("job_id", "attempt_id", "node_id")
