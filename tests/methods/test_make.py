"""Methods by name, their options, sizes, recipes and counts."""

from __future__ import annotations

import pytest
import torch

from crwn.data import ImageSet
from crwn.errors import ConfigError
from crwn.methods import METHODS, Counts, make_method
from crwn.recipe import Recipe
from crwn.rows import Rows
from crwn.scenarios import Scenario, Task, make_scenario


def mnist_shaped(tasks: int = 2) -> Scenario:
    """MNIST's shape without its data: enough to size networks."""
    rows = Rows(torch.zeros(4, 784, dtype=torch.uint8), torch.tensor([0, 1, 2, 3]))
    made = [Task(f"t{k}", rows, rows, tuple(range(10))) for k in range(tasks)]
    return Scenario("mnist-shaped", made, seed=0, input_shape=(784,), budget={"batches": 1000})


def counts(name: str, size: str | None = None, tasks: int = 36, **settings: str) -> Counts:
    method, _ = make_method(name, mnist_shaped(), size=size, settings=settings)
    found = method.counts(tasks)
    assert found.note
    return found


@pytest.mark.parametrize(
    ("size", "numbers"),
    [("256", 1299), ("512", 1811), ("1024", 2835), ("2048", 4883), ("4096", 8979), ("16384", 33555)],
)
def test_neuromodnet_counts(size: str, numbers: int) -> None:
    found = counts("neuromodnet", size, weights="hadamard")
    assert (found.params_per_task, found.params_per_task_amortised) == (numbers, numbers)
    assert found.bytes_per_task == 4 * numbers


def test_neuromodnet_counts_by_modulation_and_mode() -> None:
    assert counts("neuromodnet").params_per_task == 2835  # 1024 is the default
    assert counts("neuromodnet", "256", modulation="local").params_per_task == 1296
    assert counts("neuromodnet", "256", modulation="global").params_per_task == 3
    assert counts("neuromodnet", "256", depth="1").params_per_task == 784 + 256 + 2
    pretrained = counts("neuromodnet", "4096", pretrained="true")
    assert pretrained.params_per_task == 8979
    assert pretrained.params_per_task_amortised == pytest.approx(20_029_440 / 36 + 8979)
    assert pretrained.bytes_per_task == 4 * 20_029_440 // 36 + 4 * 8979


@pytest.mark.parametrize(("size", "numbers"), [("10d", 7841), ("20d", 15681), ("30d", 23521), ("40d", 31361)])
def test_flynet_counts(size: str, numbers: int) -> None:
    found = counts("flynet", size)
    assert (found.params_per_task, found.bytes_per_task) == (numbers, 4 * numbers)


def test_baseline_counts() -> None:
    batche = counts("batche")
    assert batche.params_per_task == 1818
    assert round(batche.params_per_task_amortised) == 9285
    assert batche.bytes_per_task == 4 * 1818 + 4 * 268_800 // 36
    psp = counts("psp")
    assert (psp.params_per_task, psp.params_per_task_amortised) == (1_014_528, 1_014_528)
    assert psp.bytes_per_task == 8 + 4 * 268_800 // 36
    supsup = counts("supsup")
    assert (supsup.params_per_task, supsup.params_per_task_amortised) == (268_800, 268_800)
    assert supsup.bytes_per_task == 268_800 // 8
    assert counts("stl") == Counts(268_800, 268_800, 4 * 268_800, counts("stl").note)
    for name in ("mtl", "finetune"):
        assert counts(name).params_per_task == 268_800
        assert counts(name).bytes_per_task == 4 * 268_800 // 36
    assert counts("ewc").bytes_per_task == 3 * 4 * 268_800 // 36
    assert counts("replay").bytes_per_task == (4 * 268_800 + 36 * 4 * 786) // 36  # all four rows of a task fit
    small = counts("replay", buffer_bytes="100000")
    assert small.bytes_per_task == (4 * 268_800 + 36 * 3 * 786) // 36  # 100,000 bytes hold three of each


def test_bytes_counted_are_bytes_written() -> None:
    scenario = make_scenario("rotated-digits", tasks=2)
    for name in ("neuromodnet", "flynet", "supsup", "batche", "stl"):
        method, _ = make_method(name, scenario, size="10d" if name == "flynet" else "32")
        for task in scenario:
            method.learn([task], method.recipe(batches=1))
        own = sum(tensor.nbytes for tensor in method.task_state(scenario[1]).values())
        spread = sum(v.nbytes for k, v in method.task_state(scenario[0]).items() if k.startswith("shared/"))
        assert method.counts(2).bytes_per_task == own + spread // 2
    replay, _ = make_method("replay", scenario, size="32", settings={"buffer_bytes": "5000"})
    for task in scenario:
        replay.learn([task], replay.recipe(batches=1))
        kept = sum(v.nbytes for k, v in replay.shared_state().items() if k.startswith("buffer/"))
        assert 4000 < kept <= 5000
    psp, _ = make_method("psp", scenario, size="32")
    assert sum(tensor.nbytes for tensor in psp.task_state(scenario[0]).values()) == 8


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("supsup", {"density": "0.2"}, "are for images"),
        ("neuromodnet", {"first_rate": "0.1"}, "is for pretrained=true"),
        ("neuromodnet", {"statistics_momentum": "0.2"}, "is for images"),
    ],
)
def test_options_that_would_do_nothing_are_refused(method: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method(method, mnist_shaped(), settings=settings)


@pytest.mark.parametrize(
    ("name", "optimizer", "rate", "image_rate"),
    [
        ("neuromodnet", "rmsprop", 0.01, 0.1),
        ("flynet", "rmsprop", 0.01, None),
        ("supsup", "rmsprop", 1e-4, 1e-3),
        ("batche", "rmsprop", 0.01, 0.01),
        ("psp", "rmsprop", 1e-4, 1e-3),
        ("stl", "rmsprop", 1e-3, 1e-3),
        ("mtl", "rmsprop", 1e-3, 1e-3),
        ("finetune", "rmsprop", 1e-3, 1e-3),
        ("ewc", "rmsprop", 1e-3, 1e-3),
        ("replay", "rmsprop", 1e-3, 1e-3),
    ],
)
def test_published_recipes(name: str, optimizer: str, rate: float, image_rate: float | None) -> None:
    method, _ = make_method(name, mnist_shaped())
    recipe = method.recipe()
    assert (recipe.optimizer, recipe.rate, recipe.schedule) == (optimizer, rate, "constant")
    assert (recipe.batch_size, recipe.batches, recipe.epochs) == (128, 1000, None)
    assert method.recipe(epochs=3, batches=None).batches is None
    assert method.recipe(rate=0.5).rate == 0.5
    if image_rate is not None:
        method.scenario = Scenario("images", [], seed=0, input_shape=(3, 32, 32), budget={"epochs": 250})
        recipe = method.recipe()
        assert (recipe.optimizer, recipe.rate, recipe.schedule, recipe.epochs) == ("adam", image_rate, "cosine", 250)


def test_settings_are_options_or_recipe_fields() -> None:
    method, overrides = make_method(
        "neuromodnet",
        mnist_shaped(),
        size="256",
        settings={"weights": "hadamard", "recipe": "best", "rate": "0.05", "batch_size": "64"},
    )
    assert method.options.weights == "hadamard"  # type: ignore[attr-defined]
    assert overrides == {"rate": 0.05, "batch_size": 64}
    recipe = method.recipe(**overrides)
    assert (recipe.optimizer, recipe.rate, recipe.batch_size, recipe.schedule) == ("adam", 0.05, 64, "onecycle")


def test_the_best_recipe_brings_its_structure_unless_told_otherwise() -> None:
    plain, _ = make_method("neuromodnet", mnist_shaped(), size="256", settings={})
    assert (plain.model.config["weights"], plain.model.norm) == ("gaussian", "none")  # type: ignore[attr-defined]
    best, _ = make_method("neuromodnet", mnist_shaped(), size="256", settings={"recipe": "best"})
    assert (best.model.config["weights"], best.model.norm) == ("patches", "layer")  # type: ignore[attr-defined]
    told, _ = make_method("neuromodnet", mnist_shaped(), size="256", settings={"recipe": "best", "norm": "none"})
    recipe = told.recipe()
    assert (recipe.optimizer, recipe.rate, recipe.schedule) == ("rmsprop", 0.02, "cosine")


@pytest.mark.parametrize(
    ("name", "size", "settings", "words"),
    [
        ("neuromodnett", None, {}, ['"neuromodnett"', 'did you mean "neuromodnet"', *METHODS]),
        ("neuromodnet", "10d", {}, ['"10d"', "like 256"]),
        ("neuromodnet", "0", {}, ['"0"']),
        ("flynet", "256", {}, ['"256"', "like 10d"]),
        ("stl", "-4", {}, ['"-4"']),
        ("flynet", None, {"gama": "1"}, ['"gama"', '"gamma"', "modulation", "rate"]),
        ("flynet", None, {"modulation": "none"}, ["modulation=none", "'both'"]),
        ("stl", None, {"rate": "fast"}, ["rate=fast"]),
        ("stl", None, {"rate": "-1"}, ["rate=-1"]),
        ("neuromodnet", "64", {"pretrained": "true", "weights": "hadamard"}, ["pretrained", "hadamard"]),
        ("replay", None, {"buffer_bytes": "100"}, ["100 bytes", "786"]),
        ("flynet", None, {"inputs_per_node": "1000"}, ["1000", "784"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    name: str, size: str | None, settings: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        make_method(name, mnist_shaped(), size=size, settings=settings)
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", METHODS)
def test_no_option_hides_a_field_of_the_recipe(name: str) -> None:
    assert not METHODS[name].Options.model_fields.keys() & Recipe.model_fields.keys()


@pytest.mark.parametrize(
    ("name", "size", "stack"),
    [
        ("neuromodnet", "256", 16),
        ("neuromodnet", "4096", 4),
        ("flynet", "10d", 2),
        ("flynet", "40d", 1),
        ("stl", None, 1),
        ("supsup", None, 1),
        ("batche", None, 16),
    ],
)
def test_stack_sizes_are_a_rule(name: str, size: str | None, stack: int) -> None:
    settings = {"weights": "hadamard"} if name == "neuromodnet" else {}
    method, _ = make_method(name, mnist_shaped(), size=size, settings=settings)
    assert method.stack_size == stack


@pytest.mark.mnist
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "settings", "at_least"),
    [("neuromodnet", "256", {}, 80.0), ("flynet", "10d", {}, 85.0), ("stl", None, {}, 88.0)],
)
def test_a_row_of_table_1_comes_out_on_a_short_protocol(
    name: str, size: str | None, settings: dict[str, str], at_least: float, mnist: ImageSet
) -> None:
    from crwn.prediction import accuracy
    from crwn.scenarios import rotated

    scenario = rotated(mnist, tasks=2)
    method, _ = make_method(name, scenario, size=size, settings=settings)
    task = scenario[1]
    method.learn([task], method.recipe(batches=100))
    assert 100 * accuracy(method.logits(task, task.test), task.test.labels(slice(None))) > at_least
