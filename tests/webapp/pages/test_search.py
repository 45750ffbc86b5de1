from collections.abc import Callable

from django.test import Client

from webapp.accounts.models import User
from webapp.nodes.models import Node

Browse = Callable[[User], Client]


def test_a_search_that_is_sent_answers_with_a_whole_page(
    node: Callable[..., Node], owner: User, browser: Browse
) -> None:
    node("toy-1")
    page = browser(owner).get("/search/?q=toy").content.decode()
    assert "css/trainmaster.css" in page
    assert "<h1>Search</h1>" in page
    assert ">toy-1</span>" in page


def test_the_list_under_the_search_field_says_which_words_it_answers(
    node: Callable[..., Node], owner: User, browser: Browse
) -> None:
    node("toy-1")
    part = browser(owner).get("/search/?q= toy&block=found", HTTP_HX_REQUEST="true").content.decode()
    assert 'data-words="toy"' in part
    assert "<html" not in part


def test_a_search_without_a_hit_says_what_is_searched(owner: User, browser: Browse) -> None:
    page = browser(owner).get("/search/?q=nowhere").content.decode()
    assert "Nothing is called “nowhere”." in page
