"""A label chain that stands still: labels that are observed, where a method asks for a chain of them."""

import numpy as np

from ..kernels.chain import Trace


class ObservedLabels:
    """What the joint chains see of a LabelChain; there is no noise, so no parameters of it."""

    def __init__(self, labels: np.ndarray, statistic: int):
        self.labels, self.statistic, self.done = labels, statistic, 0

    def sweep(self, betas: np.ndarray) -> Trace:
        """Steps at these betas, which change nothing."""
        n = len(betas)
        self.done += n
        return Trace(np.array(betas), np.full(n, self.statistic), np.empty((0, n, 0)))

    def count(self) -> None:
        """Nothing to count."""

    def pack(self, counts: bool = True) -> dict[str, np.ndarray]:
        """The number of steps so far, as a LabelChain has it; there are no counts."""
        return {"steps": np.array([self.done, 0])}

    def unpack(self, packed: dict[str, np.ndarray]) -> None:
        """Go on from what `pack` gave."""
        self.done = int(packed["steps"][0])
