"""The Hugging Face Hub: upload a model folder with a model card, and download one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crwn._utils import counted, write_whole
from crwn.contexts import Context
from crwn.contexts.bank import get_readable, open_bank
from crwn.errors import CRWNError, DataError, MissingExtraError
from crwn.layers import learned_parameters
from crwn.learner import Learner
from crwn.learner import folder as model_folder
from crwn.models import network_of

CARD = "README.md"
FILES = [model_folder.DESCRIPTION, model_folder.BANK, model_folder.WEIGHTS, CARD]
TASKS_SHOWN = 50


def save_pretrained(learner: Learner, folder: str | Path, *, license: str | None = None) -> Path:
    """Write a model folder with all tasks and a model card."""
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
    """Open a learner from a folder, or from a repository on the Hub ("owner/digits").

    Tasks learned later are stored in that folder; with a repository they are in memory, and `save` writes them.
    """
    if Path(where).is_dir():
        return Learner.load(where, **settings)
    if isinstance(where, Path) or where.count("/") != 1:
        raise DataError(f'there is no folder {where}: give a model folder, or a repository like "owner/digits"')
    with _hub(f"cannot fetch {where}") as hub, tempfile.TemporaryDirectory() as temporary:
        fetched = Path(
            hub.HfApi(endpoint=endpoint, token=token).snapshot_download(where, revision=revision, allow_patterns=FILES)
        )
        # A copy: opening a bank writes beside it, and the Hub's cache must not change.
        folder = Path(shutil.copytree(fetched, Path(temporary) / "model"))
        learner = Learner(model_folder.read_model(folder), **settings)
        if not (folder / model_folder.BANK).exists():
            raise DataError(f"{where} has no {model_folder.BANK}: its contexts are missing")
        with open_bank(folder / model_folder.BANK, model=learner.fingerprint) as bank:
            model_folder.copy_contexts(bank, learner.bank)
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
    """Upload the model folder to a repository, which is created if it does not exist, and return the commit's URL."""
    with _hub(f"cannot push to {repository}") as hub, tempfile.TemporaryDirectory() as temporary:
        folder = save_pretrained(learner, Path(temporary) / "model", license=license)
        api = hub.HfApi(endpoint=endpoint, token=token)
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message, allow_patterns=FILES)
        return str(commit.commit_url)


def model_card(learner: Learner, *, license: str | None = None) -> str:
    """The model card in Markdown: the network, its tasks, and how to use it."""
    model = learner.model
    names = learner.tasks
    contexts, _ = get_readable(learner.bank, names[:TASKS_SHOWN])
    network = network_of(model)
    parameters = learned_parameters(model)
    head = ["---", "library_name: crwn", "tags: [crwn, continual-learning, random-weights]"]
    head += [f"license: {license}"] if license else []
    lines = [
        *head,
        "---",
        "",
        f"# {network.kind}, {counted(len(names), 'task')}",
        "",
        "A frozen random network; each task has learned a context that modulates it.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {_cell(key)} | {_cell(value)} |" for key, value in network.config.items()),
        f"| parameters per task | {parameters:,} |",
        f"| fingerprint | `{learner.fingerprint}` |",
        "",
        "The frozen weights are not stored: they are made from the seed and compared with the fingerprint.",
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
    facts = ("" if fact is None else fact for fact in (context.info.rows, context.info.batches, context.info.loss))
    cells = (context.name, f"{len(context.classes)}: {shown}", *facts, context.created[:10])
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    plain = " ".join(str(value).split())
    return "".join(f"\\{character}" if character in "\\|`*_[]<>#" else character for character in plain)


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
