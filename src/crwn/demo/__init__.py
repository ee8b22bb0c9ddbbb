"""The demo: three ways to learn six turns of the digits, and what is left of each task at the end."""

from crwn.demo.story import METHODS, Story, tell

__all__ = ["METHODS", "Story", "tell"]
