"""What loggers of training steps share: which steps they write."""

from __future__ import annotations

from crwn._utils import Closing
from crwn.errors import ConfigError
from crwn.training.loop import Step


class StepLog(Closing):
    """A callback that writes every few steps of every task, and always the last one."""

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ConfigError(f"every must be at least 1, got {every}")
        self.every = every

    def is_due(self, step: Step) -> bool:
        return step.step % self.every == 0 or step.step == step.steps
