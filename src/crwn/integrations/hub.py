"""The Hugging Face Hub: a model folder with a card, pushed and fetched."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crwn import model_folder
from crwn.bank import open_bank
from crwn.context import Context
from crwn.errors import CRWNError, DataError, MissingExtraError
from crwn.files import write_whole
from crwn.layers import learned_numbers
from crwn.learner import Learner

CARD = "README.md"
FILES = [model_folder.DESCRIPTION, model_folder.BANK, CARD]
TASKS_SHOWN = 50


def save_pretrained(learner: Learner, folder: str | Path, *, license: str | None = None) -> Path:
    """Write a model folder with all tasks and a card made from its own record."""
    folder = Path(folder)
    learner.save(folder)
    write_whole(folder / CARD, model_card(learner, license=license).encode())
    return folder


def from_pretrained(
    where: str | Path,
    *,
    revision: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
    **settings: Any,
) -> Learner:
    """A learner from a folder, or from a repository on the Hub ("somebody/digits").

    From a folder it keeps learning into that folder; from the Hub its tasks are in memory, and `save` keeps them.
    """
    if Path(where).is_dir():
        return Learner.load(where, **settings)
    if isinstance(where, Path) or where.count("/") != 1:
        raise DataError(f'there is no folder {where}: give a model folder, or a repository like "somebody/digits"')
    with _hub(f"cannot fetch {where}") as hub, tempfile.TemporaryDirectory() as own:
        fetched = Path(
            hub.HfApi(endpoint=endpoint, token=token).snapshot_download(where, revision=revision, allow_patterns=FILES)
        )
        # Opening a bank writes beside it, which the Hub's cache is not for.
        folder = Path(shutil.copytree(fetched, Path(own) / "model"))
        learner = Learner(model_folder.read_model(folder), **settings)
        if not (folder / model_folder.BANK).exists():
            raise DataError(f"{where} has no {model_folder.BANK}: its contexts are missing")
        with open_bank(folder / model_folder.BANK, model=learner.fingerprint) as bank:
            for names in _in_parts(bank.names()):
                learner.bank.put_many(bank.get_many(names))
        return learner


def push_to_hub(
    learner: Learner,
    repository: str,
    *,
    private: bool | None = None,
    message: str = "Upload a crwn model",
    license: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Make the repository where there is none, upload the model folder, and give the commit's address."""
    with _hub(f"cannot push to {repository}") as hub, tempfile.TemporaryDirectory() as own:
        folder = save_pretrained(learner, Path(own) / "model", license=license)
        api = hub.HfApi(endpoint=endpoint, token=token)
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message, allow_patterns=FILES)
        return str(commit.commit_url)


def model_card(learner: Learner, *, license: str | None = None) -> str:
    """The card: what the model is, what it has learned, and how to use it."""
    model = learner.model
    names = learner.tasks
    contexts = learner.bank.get_many(names[:TASKS_SHOWN])
    config = getattr(model, "config", {})
    numbers = learned_numbers(model)
    head = ["---", "library_name: crwn", "tags: [crwn, continual-learning, random-weights]"]
    head += [f"license: {license}"] if license else []
    lines = [
        *head,
        "---",
        "",
        f"# {getattr(model, 'kind', type(model).__name__)}, {len(names):,} tasks",
        "",
        "One frozen random network; what each task learned is a context that modulates it.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {_cell(key)} | {_cell(value)} |" for key, value in config.items()),
        f"| numbers learned per task | {numbers:,} |",
        f"| fingerprint | `{learner.fingerprint}` |",
        "",
        "The frozen weights are not in the files: they are made again from the seed and checked by the fingerprint.",
        "",
        "```python",
        "from crwn.integrations.hub import from_pretrained",
        "",
        'learner = from_pretrained("OWNER/NAME")',
        f"learner.predict(rows, task={names[0]!r})" if names else "learner.learn(...)",
        "```",
        "",
        "## Tasks",
        "",
        "| task | classes | rows | batches | last loss | learned |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(context) for context in contexts),
    ]
    if len(names) > TASKS_SHOWN:
        lines += ["", f"... and {len(names) - TASKS_SHOWN:,} more."]
    return "\n".join(lines) + "\n"


def _row(context: Context) -> str:
    shown = ", ".join(str(label) for label in context.classes[:10])
    shown += ", ..." if len(context.classes) > 10 else ""
    facts = (context.info.get(key, "") for key in ("rows", "batches", "loss"))
    cells = (context.name, f"{len(context.classes)}: {shown}", *facts, context.created[:10])
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    plain = " ".join(str(value).split())
    return "".join(f"\\{character}" if character in "\\|`*_[]<>#" else character for character in plain)


def _in_parts(names: list[str], size: int = 1000) -> Iterator[list[str]]:
    for at in range(0, len(names), size):
        yield names[at : at + size]


@contextmanager
def _hub(what: str) -> Iterator[Any]:
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError("the Hugging Face Hub", "hub") from None
    try:
        yield huggingface_hub
    except CRWNError:
        raise
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise CRWNError(f"{what}: {reason}") from None
