"""TensorBoard: a callback that writes losses, learning rates and norms of contexts during training."""

from __future__ import annotations

from pathlib import Path

from crwn.errors import MissingExtraError
from crwn.integrations.step_log import StepLog
from crwn.training.loop import Step


class TensorBoard(StepLog):
    """A callback that writes every few steps of every task: `learner.learn(..., callbacks=[TensorBoard("logs")])`.

    A custom logger is a callback too: a function of one `crwn.training.Step` (examples/custom_logger.py).

    Args:
        folder: the log folder: `tensorboard --logdir FOLDER`.
        every: steps between two entries; the last step of a task is always written.
    """

    def __init__(self, folder: str | Path, *, every: int = 10) -> None:
        super().__init__(every)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("writing for TensorBoard", "tensorboard") from None
        self.writer = SummaryWriter(str(folder))

    def __call__(self, step: Step) -> None:
        if not self.is_due(step):
            return
        for i, name in enumerate(step.names):
            self._write(f"loss/{name}", float(step.losses[i]), step.step)
            self._write(f"rate/{name}", step.rate, step.step)
            for tensor, values in step.tensors.items():
                self._write(f"norm of {tensor}/{name}", float(values[i].detach().norm()), step.step)
        if step.step == step.steps:
            self.writer.flush()

    def _write(self, what: str, value: float, step: int) -> None:
        self.writer.add_scalar(what, value, step)

    def close(self) -> None:
        """Close the log files; the last step of every task has been flushed."""
        self.writer.close()
