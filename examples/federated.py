"""Twenty owners of unequal data learn one task together: rows stay where they are, one round of sums is exact.

Run it with `python examples/federated.py` after `scripts/install-flower`. The context of one round is the context of
all rows in one place; training by batches, averaged over rounds, sends kilobytes instead of the sums' megabytes.
"""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from sklearn.datasets import load_digits

import crwn
from crwn.integrations.flower import Federation, client_app

CLIENTS = 20
x, y = load_digits(return_X_y=True)
x = (x * 15).astype(np.uint8)
x, y, x_test, y_test = x[:1200], y[:1200], x[1200:], y[1200:]

# Most clients have few rows, and most rows of a client are of a few digits.
generator = np.random.default_rng(0)
shares = generator.dirichlet(np.full(CLIENTS, 0.5), size=10)  # [digits, clients]
owner = np.array([generator.choice(CLIENTS, p=shares[digit]) for digit in y])
for client in range(CLIENTS):
    owner[client] = client  # everybody has a row


def make_model() -> crwn.FlyNet:
    return crwn.FlyNet(in_features=64, hidden=640, classes=10, seed=0)


def load(context: Context) -> tuple[np.ndarray, np.ndarray]:
    mine = owner == context.node_config["partition-id"]
    return x[mine], y[mine]


learner = crwn.Learner(make_model())
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    Federation(learner, "one round of sums", classes=range(10), clients=CLIENTS).exact(grid)
    Federation(learner, "averaged", classes=range(10), clients=CLIENTS).average(grid, rounds=3, batches=20)


if __name__ == "__main__":
    print("rows per client:", np.bincount(owner, minlength=CLIENTS).tolist())
    run_simulation(
        server,
        client_app(load, make_model),
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2, "include_dashboard": False}},
    )
    learner.learn("all rows in one place", x, y, method="exact", progress=False)
    one, other = (learner.context(task).tensors for task in ("one round of sums", "all rows in one place"))
    print("largest difference:", max(float((one[key] - other[key]).abs().max()) for key in one))
    for task in learner.tasks:
        print(f"{task}: {100 * learner.score(x_test, y_test, task=task):.2f}%")
