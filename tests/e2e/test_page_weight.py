"""What a page costs a browser that has never been here, and one that has."""

from playwright.sync_api import Page

from tests.e2e.people import People

COLD_BYTES, WARM_BYTES = 250_000, 50_000
PLOTLY = "plotly.min"


def loaded(page: Page, path: str) -> dict[str, int]:
    """Opens the page and returns the bytes on the wire of each address; a file out of the cache counts none."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    addresses: dict[str, str] = {}
    sizes: dict[str, int] = {}
    session.on(
        "Network.requestWillBeSent",
        lambda event: addresses.update({event["requestId"]: event["request"]["url"]}),
    )
    session.on(
        "Network.loadingFinished",
        lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}),
    )
    page.goto(path, wait_until="networkidle")
    session.detach()
    return {addresses[request]: size for request, size in sizes.items() if request in addresses}


def test_the_overview_is_light_when_it_is_cold_and_lighter_when_it_is_warm(people: People) -> None:
    page = people.come("bob")
    cold = loaded(page, "/")
    assert sum(cold.values()) <= COLD_BYTES, cold
    assert not [address for address in cold if PLOTLY in address]
    assert sum(loaded(page, "/").values()) <= WARM_BYTES


def test_a_chart_is_drawn_only_when_it_comes_into_view(people: People) -> None:
    page = people.come("bob", viewport={"width": 1280, "height": 200})
    assert not [address for address in loaded(page, "/teams/vision/") if PLOTLY in address]
    with page.expect_response(lambda response: PLOTLY in response.url):
        page.locator("figure[data-chart]").first.scroll_into_view_if_needed()
