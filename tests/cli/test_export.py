"""`crwn export` and `crwn import-context`."""

from __future__ import annotations

from pathlib import Path

from command_line import SMALL, Crwn
from crwn import Context


def test_a_context_travels_between_folders_of_one_model(
    crwn: Crwn, files: Path, model_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "up.safetensors"
    facts = crwn("export", model_folder, "up", file, "--json")
    assert facts["bytes"] == file.stat().st_size
    assert Context.load(file).name == "up"
    before = crwn("predict", model_folder, files / "test.npz", "--task", "up", "--json")["predictions"]
    crwn("forget", model_folder, "up")
    assert crwn("import-context", model_folder, file) == f'added "up"; 2 tasks in {model_folder} now\n'
    assert crwn("predict", model_folder, files / "test.npz", "--task", "up", "--json")["predictions"] == before
    assert '"up"' in crwn("import-context", model_folder, file, fails=True)
    crwn("import-context", model_folder, file, "--replace")
    crwn("learn", tmp_path / "other.crwn", "t", files / "up.npz", "--seed", 1, *SMALL)
    assert "load the model it belongs to" in crwn("import-context", tmp_path / "other.crwn", file, fails=True)
    file.write_bytes(file.read_bytes()[:-1])
    assert "damaged" in crwn("import-context", model_folder, file, "--replace", fails=True)
    assert "ends in .pt" in crwn("export", model_folder, "up", tmp_path / "up.pt", fails=True)
