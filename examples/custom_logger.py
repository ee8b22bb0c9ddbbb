"""A custom logger is a callback: `Logger` writes the losses of every step to a text file.

For W&B replace the print by `wandb.log({...}, step=step.step)`, for MLflow by `mlflow.log_metrics({...}, step.step)`.
"""

import sys
from pathlib import Path

from sklearn.datasets import load_digits

import crwn
from crwn.training import Step


class Logger:
    def __init__(self, path: Path) -> None:
        self.file = path.open("w")

    def __call__(self, step: Step) -> None:
        print({f"loss/{name}": float(step.losses[i]) for i, name in enumerate(step.names)}, step.step, file=self.file)


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "losses.txt")
    x, y = load_digits(return_X_y=True)
    learner = crwn.Learner(crwn.NeuroModNet(in_features=64, hidden=(256,), classes=10, seed=0))
    logger = Logger(path)
    learner.learn("upright", x, y, batches=50, callbacks=[logger])
    learner.learn("upside down", x[:, ::-1].copy(), y, batches=50, callbacks=[logger])
    logger.file.close()
    print(f"{path}: {len(path.read_text().splitlines())} lines")
