from crwn.data.sources.cifar100_superclasses import SUPERCLASS_OF, SUPERCLASSES, shared_superclasses


def test_a_hundred_classes_in_twenty_groups_of_five() -> None:
    assert len(SUPERCLASSES) == 20
    assert {len(names) for names in SUPERCLASSES.values()} == {5}
    assert len(SUPERCLASS_OF) == 100


def test_pairs_of_one_superclass_are_counted() -> None:
    assert shared_superclasses(("beaver", "seal", "bus"), ("otter", "whale")) == 4
    assert shared_superclasses(("bus",), ("tank",)) == 0
