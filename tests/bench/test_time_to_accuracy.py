"""Time to an accuracy: found at the first evaluation that has it, absent where it is never reached."""

from crwn.bench.convolution import CLASSES, random_images
from crwn.bench.time_to_accuracy import CHECKS, Check, first_reached, time_to, watched
from crwn.methods import make_method
from crwn.models import EncodedNetwork
from crwn.scenarios.split import split

SCENARIO = split(random_images(16, 50, seed=0), CLASSES, seed=0, tasks=1)


def test_the_checks_of_a_task() -> None:
    method, overrides = make_method("flynet", SCENARIO, size="5k", seed=0, settings={})
    recipe = method.recipe(**overrides, batches=40)
    assert isinstance(method.model, EncodedNetwork)
    checks = watched(method.model, SCENARIO[0], recipe, seed=0)
    assert [check.step for check in checks] == list(range(2, 41, 40 // CHECKS))
    assert [check.seconds for check in checks] == sorted(check.seconds for check in checks)
    assert checks[-1].accuracy == 100.0  # the test images are the training images, and are few


def test_a_target_that_is_reached_and_one_that_is_not() -> None:
    reached = time_to(50.0, SCENARIO, size="5k", settings={}, seed=0)
    assert reached.seconds is not None
    assert reached.seconds > 0
    assert reached.accuracy >= 50.0
    never = first_reached(99.0, [[Check(10, 1.0, 50.0), Check(20, 2.0, 60.0)]])
    assert (never.seconds, never.step, never.accuracy, never.final) == (None, 20, 60.0, 60.0)


def test_a_closed_form_has_one_check_at_its_end() -> None:
    reached = time_to(50.0, SCENARIO, size="10k", settings={"recipe": "best"}, seed=0)
    assert reached.seconds is not None
    assert reached.seconds > 0
    assert (reached.step, reached.accuracy) == (0, 100.0)
