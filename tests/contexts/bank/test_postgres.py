"""Banks in PostgreSQL when the server goes away, comes back, or was never there."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from crwn.contexts import Context
from crwn.contexts.bank import open_bank
from crwn.errors import BankError

Make = Callable[..., Context]


def test_a_server_that_goes_away_and_comes_back(postgres: Any, make: Make) -> None:
    where = postgres.new_database()
    with open_bank(where, wait=5) as bank:
        bank.put(make("left", 1))
        postgres.stop()
        try:
            for act in (lambda: bank.get("left"), lambda: bank.put(make("right", 2)), lambda: len(bank)):
                with pytest.raises(BankError, match="cannot be reached or went away") as caught:
                    act()
                assert "\n" not in str(caught.value)
            with pytest.raises(BankError, match="cannot be reached"):
                open_bank(where, wait=2)
        finally:
            postgres.start()
        assert bank.get("left") == make("left", 1)
        assert bank.put(make("right", 2)) == 1
        assert list(bank) == ["left", "right"]


def test_a_connection_that_the_server_ends(postgres: Any, make: Make) -> None:
    import psycopg

    where = postgres.new_database()
    with open_bank(where) as bank:
        bank.put(make("left", 1))
        with psycopg.connect(where, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'crwn'")
        assert bank.get("left") == make("left", 1)
        assert bank.put(make("right")) == 1


def test_waiting_for_another_writer_ends(postgres: Any, make: Make) -> None:
    import psycopg

    where = postgres.new_database()
    with open_bank(where, wait=0.5) as bank:
        bank.put(make("left"))
        with psycopg.connect(where) as other:
            other.execute("UPDATE crwn_counters SET tasks = tasks")
            with pytest.raises(BankError, match="another process has been writing for too long"):
                bank.put(make("right"))
            assert list(bank) == ["left"]
            other.rollback()
        bank.put(make("right"))


def test_addresses_that_lead_nowhere(postgres: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(BankError, match="check that it runs") as caught:
        open_bank(f"postgresql://crwn:secret@127.0.0.1:{port}/nothing", wait=2)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(BankError, match="does not exist"):
        open_bank(f"postgresql://crwn@127.0.0.1:{postgres.port}/not_there")
    with pytest.raises(BankError, match="is not there: check the address"):
        open_bank(postgres.new_database(), create=False)


def test_a_damaged_payload_is_refused(postgres: Any, make: Make) -> None:
    import psycopg

    where = postgres.new_database()
    with open_bank(where) as bank:
        bank.put_many([make("left"), make("right")])
        with psycopg.connect(where) as other:
            other.execute("UPDATE crwn_payloads SET data = %s WHERE sequence = 1", [os.urandom(500)])
        assert len(bank.verify()) == 1
        assert bank.get("right") == make("right")
