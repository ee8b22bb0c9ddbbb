"""Things that are closed at the end of a `with` block."""

import pytest

from crwn.closing import Closing


class Door(Closing):
    closed = False

    def close(self) -> None:
        self.closed = True


def test_closed_at_the_end_and_after_an_error() -> None:
    with Door() as door:
        assert not door.closed
    assert door.closed
    broken = Door()
    with pytest.raises(ValueError, match="inside"), broken:
        raise ValueError("inside")
    assert broken.closed
