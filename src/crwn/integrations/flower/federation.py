"""The server of a federation: clients learn one task together, and the learner here stores its context."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from flwr.app import Array, ArrayRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy

from crwn.contexts import Context, ContextInfo, check_free
from crwn.data.standardize import Scaling
from crwn.errors import CRWNError
from crwn.integrations.flower.agreement import Agreement
from crwn.integrations.flower.client import tensors_of
from crwn.integrations.flower.rounds import Round, Watched, check_arrays
from crwn.integrations.flower.sums import ExactSums
from crwn.layers import context_tensors
from crwn.learner import Learner
from crwn.learner.exact import BYTE_SCALING

TIMEOUT = 3600.0


class Federation:
    """One task that many clients learn together, used inside the `main` function of a Flower `ServerApp`.

    Args:
        learner: where the context is stored; its model is the model of all clients.
        task: a name that is free in the learner.
        classes: all labels of the task; a client need not have rows of each.
        clients: how many clients to wait for.
        scaling: `(mean, deviation)` of raw rows, the same for all clients; not needed for bytes.
        timeout: seconds to wait for replies; who has not replied by then is left out.

    Attributes:
        rounds: bytes per client of every round, and clients that were left out with the reason.
    """

    def __init__(
        self,
        learner: Learner,
        task: str,
        *,
        classes: Sequence[Hashable],
        clients: int,
        scaling: Scaling | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        check_free([task], learner.bank)
        self.learner, self.clients, self.timeout = learner, clients, timeout
        self.agreement = Agreement(task, tuple(classes), learner.fingerprint, scaling)
        self.rounds: list[Round] = []

    @property
    def _scaling(self) -> Scaling:
        return self.agreement.scaling or self.learner.byte_scaling or BYTE_SCALING

    def exact(self, grid: Grid, *, ridge: float | None = None) -> Context:
        """The context of the union of all clients' rows in closed form, from one round of sums.

        Raises:
            CRWNError: no client sent sums that can be used.
        """
        sums = ExactSums(self.learner.no_statistics(self.agreement.classes, self._scaling), self.clients)
        strategy = Watched(sums, check=sums.check)
        self._start(strategy, grid, self.agreement, ArrayRecord({}), rounds=1)
        if not sums.total.rows:
            raise CRWNError(f"no client sent sums that can be used: {self._reasons()}")
        return self.learner.add_statistics(self.agreement.task, sums.total, ridge=ridge)

    def average(self, grid: Grid, *, rounds: int, batches: int, strategy: Strategy | None = None) -> Context:
        """The context after rounds in which every client trains some batches and the contexts are averaged.

        Args:
            batches: of every client in one round.
            strategy: how contexts are averaged, such as one of Flower's with differential privacy; FedAvg by default.

        Raises:
            CRWNError: no client sent a context that can be used.
        """
        agreed = Agreement(**{**vars(self.agreement), "batches": batches})
        usual = FedAvg(fraction_evaluate=0.0, min_train_nodes=self.clients, min_available_nodes=self.clients)
        begin = ArrayRecord(
            {name: Array(value.detach().numpy().copy()) for name, value in context_tensors(self.learner.model).items()}
        )
        watched = Watched(strategy or usual, check=lambda reply: check_arrays(reply, begin))
        found = self._start(watched, grid, agreed, begin, rounds=rounds)
        if not found:
            raise CRWNError(f"no client sent a context that can be used: {self._reasons()}")
        info = ContextInfo(scaling=self._scaling, batches=rounds * batches)
        context = Context(agreed.task, tensors_of(found), agreed.classes, agreed.model, info=info)
        self.learner.add(context)
        return context

    def _start(
        self, strategy: Watched, grid: Grid, agreed: Agreement, begin: ArrayRecord, *, rounds: int
    ) -> ArrayRecord:
        self.rounds = strategy.rounds
        result = strategy.start(grid, begin, num_rounds=rounds, timeout=self.timeout, train_config=agreed.record())
        return result.arrays

    def _reasons(self) -> str:
        left_out = self.rounds[-1].rejected if self.rounds else {}
        node, why = next(iter(left_out.items()), (0, "there are no clients"))
        return f"client {node}: {why}" + (f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else "")
