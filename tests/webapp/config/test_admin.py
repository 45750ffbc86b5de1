"""The admin is Django's own, under the same Content-Security-Policy as every other page."""

from collections.abc import Callable

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from tests.webapp.pages.test_templates import INLINE
from webapp.accounts.models import User

PAGES = [
    reverse("admin:index"),
    *(
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for model in admin.site._registry
    ),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_admin_brings_nothing_that_the_browser_would_refuse_or_miss(
    page: str, admin: User, browser: Callable[[User], Client]
) -> None:
    text = browser(admin).get(page).content.decode()
    assert INLINE.findall(text) == []
    assert '<link rel="icon" href="/static/icon.svg"' in text  # else the browser asks for /favicon.ico
