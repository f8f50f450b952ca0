"""One service for all tests that do not need settings of their own."""

from collections.abc import Iterator

import pytest
from serve.served import served

from cpor.serve.client import Client


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture
def client(service) -> Iterator[Client]:
    with Client(service) as connected:
        yield connected
