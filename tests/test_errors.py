"""One family of errors, and what the package offers by name."""

import pytest

import crwn
from crwn import errors


def test_every_error_is_a_crwn_error() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) >= 8
    assert all(issubclass(kind, errors.CRWNError) for kind in kinds)


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert str(errors.MissingExtraError("serving", "serve")).endswith('pip install "crwn[serve]"')


def test_the_package_offers_its_names() -> None:
    assert set(crwn.__all__) <= set(dir(crwn)) | {"__version__"}
    for name in crwn.__all__:
        assert getattr(crwn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = crwn.Nothing
