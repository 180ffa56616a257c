"""What the tests share."""

import pytest


@pytest.fixture
def path(tmp_path):
    """The path of a database that does not exist."""
    return str(tmp_path / "db")


FLASHSTORE = {"disk": "slow", "flash_bytes": 4 << 20, "segment_bytes": 128 << 10}


def settings_of(engine):
    """What `siltstone.open` needs for an engine: FlashStore has no database without its disk."""
    return {"engine": engine, **(FLASHSTORE if engine == "flashstore" else {})}
