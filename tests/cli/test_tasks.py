"""`crwn tasks` and `crwn forget`."""

from __future__ import annotations

from pathlib import Path

from command_line import Crwn


def test_tasks_and_forget(crwn: Crwn, model_folder: Path) -> None:
    listed = crwn("tasks", model_folder, "--json")
    assert listed["count"] == 2
    up = listed["tasks"][1]
    assert (up["task"], up["classes"], up["params"], up["rows"]) == ("up", list(range(10)), 64 + 128 + 128 + 3, 600)
    assert up["params_per_task"] == up["params"]
    assert up["bytes"] > 4 * up["params"]
    assert [one["task"] for one in crwn("tasks", model_folder, "--prefix", "d", "--json")["tasks"]] == ["down"]
    table = crwn("tasks", model_folder, "--limit", 1)
    assert "down" in table
    assert "| parameters |" in table
    assert "2 tasks in" in table
    assert crwn("forget", model_folder, "down") == f'forgot "down"; 1 task left in {model_folder}\n'
    assert crwn("tasks", model_folder, "--json")["count"] == 1
    assert '"down"' in crwn("forget", model_folder, "down", fails=True)
