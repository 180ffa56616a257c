"""What the tests share."""

import pytest


@pytest.fixture
def path(tmp_path):
    """The path of a database that does not exist."""
    return str(tmp_path / "db")
