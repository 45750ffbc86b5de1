"""The gate between a job's purpose and what a dataset snapshot may be used for."""

from __future__ import annotations


def why_not(purpose: str, approved: str) -> str:
    """Empty where the purpose is one of the approved, which are separated by commas; otherwise the reason."""
    names = [name.strip() for name in approved.split(",") if name.strip()]
    if purpose.strip() in names:
        return ""
    approved = ", ".join(names) or "nothing"
    return f"it is approved for {approved}, and the job's purpose is {purpose.strip() or 'not given'}"
