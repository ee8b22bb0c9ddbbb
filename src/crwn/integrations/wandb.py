"""Weights & Biases: a callback that logs losses and rates during training, and the result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crwn.errors import CRWNError, MissingExtraError
from crwn.integrations.step_log import StepLog
from crwn.training.loop import Step


class WeightsAndBiases(StepLog):
    """A callback that logs every few steps of every task: `learner.learn(..., callbacks=[WeightsAndBiases("mine")])`.

    Where and how it logs is decided as in any program that uses W&B: `wandb login`, or `WANDB_MODE=offline`.

    Args:
        project: the project's name.
        name: the name of the run in it.
        config: settings to show beside the run.
        every: steps between two entries; the last step of a task is always logged.
    """

    def __init__(
        self, project: str, *, name: str | None = None, config: Mapping[str, Any] | None = None, every: int = 10
    ) -> None:
        super().__init__(every)
        try:
            import wandb
        except ImportError:
            raise MissingExtraError("logging to Weights & Biases", "wandb") from None
        self.steps = 0
        try:
            self.run = wandb.init(project=project, name=name, config=dict(config or {}), settings={"silent": True})
        except wandb.errors.Error as error:
            raise CRWNError(
                f"Weights & Biases refuses the run ({' '.join(str(error).split())[:120]}): `wandb login` first, or set "
                "WANDB_MODE=offline"
            ) from None

    def __call__(self, step: Step) -> None:
        self.steps += 1
        if not self.is_due(step):
            return
        values = {f"loss/{name}": float(step.losses[i]) for i, name in enumerate(step.names)}
        self.run.log({**values, "rate": step.rate}, step=self.steps)

    def result(self, accuracy: Mapping[str, float], facts: Mapping[str, Any]) -> None:
        """Log the accuracy of every task at the end of a run, and the facts of its summary."""
        for name, value in accuracy.items():
            self.run.summary[f"accuracy/{name}"] = value
        self.run.summary.update(dict(facts))

    def close(self) -> None:
        """Finish the run; everything logged has been written then."""
        self.run.finish()
