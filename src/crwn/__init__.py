"""crwn: continual learning with configurable random-weight networks."""

__version__ = "0.1.0"
