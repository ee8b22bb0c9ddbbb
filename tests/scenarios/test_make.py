import pytest

from crwn.errors import ConfigError
from crwn.scenarios import SCENARIOS, make_scenario


def test_digits_scenarios_need_no_network() -> None:
    for name in ("rotated-digits", "permuted-digits"):
        scenario = make_scenario(name, tasks=8)
        assert scenario.name == name
        assert len(scenario) == 8
        assert scenario.budget == {"batches": 300}


@pytest.mark.mnist
@pytest.mark.usefixtures("mnist")
def test_mnist_scenarios_have_the_papers_protocol() -> None:
    assert len(make_scenario("rotated-mnist")) == 36
    permuted = make_scenario("permuted-mnist")
    assert len(permuted) == 100
    assert permuted.budget == {"batches": 1000}
    assert (len(permuted[0].train), len(permuted[0].test)) == (60_000, 10_000)


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"no scenario 'rotated-minst', did you mean 'rotated-mnist'\?") as caught:
        make_scenario("rotated-minst")
    for name in SCENARIOS:
        assert name in str(caught.value)
