"""People with browsers. Whoever meets an error in the console, or something forbidden by the policy, complains."""

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Playwright,
    Response,
    expect,
)

from tests.e2e.site import PATIENCE, Site
from webapp.operations.cast import CAST

# htmx says so when a newer question of the same form takes the place of one that is under way.
REPLACED = r"htmx:(sendAbort|afterRequest)"
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PASSWORDS = {person.username: person.password for person in CAST}
DESKTOP = {"width": 1280, "height": 900}
PATIENCE_MS = 1000 * PATIENCE
PHONE = {"width": 390, "height": 844}


def chromium(playwright: Playwright) -> Browser:
    """The machine's own, else the one that Playwright has downloaded."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    return playwright.chromium.launch(executable_path=found, args=SWITCHES)


@dataclass
class People:
    browser: Browser
    site: Site
    complaints: list[str] = field(default_factory=list)
    tolerated: list[str] = field(default_factory=lambda: [REPLACED])
    contexts: dict[str, BrowserContext] = field(default_factory=dict)

    def come(self, username: str, **options: Any) -> Page:
        """Signed in, on no page yet."""
        known = self.site.sessions.get(username)
        options = {"viewport": DESKTOP, **options}
        context = self.browser.new_context(base_url=self.site.url, storage_state=known, **options)
        context.set_default_timeout(PATIENCE_MS)
        context.tracing.start(snapshots=True)
        self.contexts[f"{username}-{len(self.contexts)}"] = context
        page = context.new_page()
        self._listen(username, page)
        if known is None:
            self._sign_in(username, page)
        return page

    def _sign_in(self, username: str, page: Page) -> None:
        page.goto("/login/")
        page.get_by_label("Username").fill(username)
        page.get_by_label("Password").fill(PASSWORDS[username])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Sign in")).to_have_count(0)
        self.site.sessions[username] = page.context.storage_state()

    def _listen(self, username: str, page: Page) -> None:
        def said(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.complaints.append(f"{username} on {page.url}: {message.text}")

        def answered(response: Response) -> None:
            if response.status >= 500:
                self.complaints.append(f"{username}: {response.url} answered {response.status}")

        page.on("console", said)
        page.on("pageerror", lambda error: self.complaints.append(f"{username} on {page.url}: {error}"))
        page.on("response", answered)

    def tolerate(self, pattern: str) -> None:
        """This test provokes such errors."""
        self.tolerated.append(pattern)

    def unexpected(self) -> list[str]:
        return [
            one for one in self.complaints if not any(re.search(pattern, one) for pattern in self.tolerated)
        ]

    def keep_evidence(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, context in self.contexts.items():
            with suppress(Error):  # a browser that is in trouble must not hide why the test failed
                for number, page in enumerate(context.pages):
                    page.screenshot(path=folder / f"{name}-{number}.png", timeout=20_000)
                context.tracing.stop(path=folder / f"{name}.trace.zip")

    def leave(self) -> None:
        for context in self.contexts.values():
            context.close()


def stay(page: Page) -> None:
    """From now on this page must live without being loaded again; `stayed` proves it."""
    page.evaluate("window.unbroken = true")


def stayed(page: Page) -> bool:
    return bool(page.evaluate("window.unbroken === true"))


def headline(page: Page) -> Locator:
    return page.locator("#job-head .answer strong")


def figure(page: Page, label: str) -> Locator:
    """A number beside the headline."""
    of_label = page.locator("dt", has_text=re.compile(f"^{label}$"))
    return page.locator(".figures > div").filter(has=of_label).locator("dd")


def moves(*values: Locator) -> None:
    """They show numbers, and later other ones."""
    for value in values:
        expect(value).to_have_text(re.compile(r"\d"))
    first = [value.inner_text() for value in values]
    for value, text in zip(values, first, strict=True):
        expect(value).not_to_have_text(text)


def confirm(page: Page, button: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()
