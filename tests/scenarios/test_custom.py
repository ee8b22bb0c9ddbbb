from pathlib import Path

import numpy as np
import pytest
import torch

from crwn.errors import ConfigError, DataError
from crwn.scenarios import make_scenario


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def write_table(path: Path, *, rows: int = 20, columns: int = 3, classes: tuple[str, ...] = ("no", "yes")) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, columns))
    lines = [",".join([*(f"{cell:.4f}" for cell in row), classes[at % len(classes)]]) for at, row in enumerate(x)]
    header = ",".join([*(f"c{at}" for at in range(columns)), "label"])
    path.write_text("\n".join([header, *lines]))


def test_rotated_permuted_and_split_take_their_settings(tmp_path: Path) -> None:
    turned = make_scenario(write(tmp_path, 'kind = "rotated"\ndata = "digits"\nstep = 45\nbatches = 50'))
    assert (turned.name, len(turned), turned.budget) == ("mine", 8, {"batches": 50})
    mixed = make_scenario(write(tmp_path, 'kind = "permuted"\nname = "shuffled"\ndata = "digits"\ntasks = 4'), seed=2)
    assert (mixed.name, len(mixed), mixed.seed) == ("shuffled", 4, 2)
    assert len(make_scenario(tmp_path / "mine.toml", tasks=2)) == 2
    parts = make_scenario(str(write(tmp_path, 'kind = "split"\ndata = "digits"\nclasses_per_task = 3\nepochs = 9')))
    assert (len(parts), parts.num_classes, parts.budget) == (3, 3, {"epochs": 9})


def test_custom_tasks(tmp_path: Path) -> None:
    write_table(tmp_path / "north.csv")
    write_table(tmp_path / "south.csv", rows=30, classes=("a", "b", "c"))
    write_table(tmp_path / "later.csv", rows=6, classes=("a", "b", "c"))
    scenario = make_scenario(
        write(
            tmp_path,
            """
            kind = "custom"
            [[task]]
            name = "north"
            data = "north.csv"
            factors = { latitude = 61.5 }
            [[task]]
            name = "south"
            data = "south.csv"
            test = "later.csv"
            """,
        )
    )
    north, south = scenario
    assert scenario.input_shape == (3,)
    assert scenario.num_classes == 3
    assert (len(north.train), len(north.test), len(south.train), len(south.test)) == (16, 4, 30, 6)
    assert north.classes == ("no", "yes")
    assert dict(north.factors) == {"latitude": 61.5}
    inputs = south.train.inputs(slice(0, 30))
    assert torch.allclose(inputs.mean(dim=0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(inputs.std(dim=0, correction=0), torch.ones(3), atol=1e-5)


def test_the_old_name_of_a_custom_scenario_still_works(tmp_path: Path) -> None:
    text = 'kind = "{}"\n[[task]]\nname = "a"\ndata = "digits"'
    old, new = (make_scenario(write(tmp_path, text.format(kind))) for kind in ("own", "custom"))
    assert [task.name for task in old] == [task.name for task in new] == ["a"]
    assert torch.equal(old[0].train.inputs(slice(0, 5)), new[0].train.inputs(slice(0, 5)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind = ", "cannot be read"),
        ("", "it has no kind"),
        ('kind = "spun"', "kind 'spun' is none of rotated, permuted, split, custom"),
        ('kind = "rotated"', "data: Field required"),
        ('kind = "rotated"\ndata = "digits"\nspeed = 3', "'speed' is not known"),
        ('kind = "split"\ndata = "digits"\nclasses_per_task = 1', "classes_per_task: .* greater than or equal to 2"),
        (
            'kind = "split"\ndata = "digits"\nclasses_per_task = 11',
            "needs 11 classes .* has only 10",
        ),
        ('kind = "permuted"\ndata = "digits"\nbatches = 1\nepochs = 1', "give batches or epochs, not both"),
        ('kind = "custom"\ntask = []', "task: "),
        (
            'kind = "custom"\n[[task]]\nname = "a"\ndata = "digits"\n[[task]]\nname = "a"\ndata = "digits"',
            "two tasks named",
        ),
        ('kind = "custom"\n[[task]]\nname = "a"\ndata = "digits"\ntest = "b.csv"', "has test rows already"),
    ],
)
def test_files_with_mistakes_say_which(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_scenario(write(tmp_path, text))


def test_data_that_is_not_there_or_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.csv, named in .*mine.toml, does not exist"):
        make_scenario(write(tmp_path, 'kind = "permuted"\ndata = "nowhere.csv"'))
    with pytest.raises(DataError, match=r"there is no dataset 'nowhere'"):
        make_scenario(write(tmp_path, 'kind = "permuted"\ndata = "nowhere"'))
    write_table(tmp_path / "a.csv")
    text = 'kind = "custom"\n[[task]]\nname = "a"\ndata = "a.csv"\n[[task]]\nname = "b"\ndata = "digits"'
    with pytest.raises(DataError, match=r"task 'b' in .* has rows of shape \(8, 8\), task 'a' of \(3,\)"):
        make_scenario(write(tmp_path, text))
