"""The page in a real browser against a real service; every test also fails on what a user never sees."""

from urllib.parse import urlsplit

import pytest
from e2e.watched_page import Watched, note_request
from support.browser import open_browser, running_service

LAPTOP = {"width": 1366, "height": 768}

WATCH_POLICY = """document.addEventListener('securitypolicyviolation',
    (event) => console.error('policy violated: ' + event.violatedDirective + ' ' + event.blockedURI));"""


@pytest.fixture(scope="session")
def service():
    with running_service() as url:
        yield url


@pytest.fixture(scope="session")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture
def open_page(service, browser):
    """Opens watched pages; at the end none may have complained or talked to another host."""
    watched = []

    def open_one(where: str = "/", **context) -> Watched:
        options = {"viewport": LAPTOP, "reduced_motion": "reduce"} | context
        page = browser.new_context(**options).new_page()
        page.set_default_timeout(60_000)
        page.add_init_script(WATCH_POLICY)
        it = Watched(page, service)
        page.on("console", lambda said: it.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: it.complaints.append(str(error)))
        page.on("request", lambda request: note_request(it, request))
        watched.append(it)
        return it.open(where)

    yield open_one
    for it in watched:
        it.page.context.close()
    for it in watched:
        unexpected = [text for text in it.complaints if not any(each in text for each in it.expected)]
        assert not unexpected, unexpected
        assert it.hosts <= {urlsplit(it.url).netloc}, it.hosts
