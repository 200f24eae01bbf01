"""Tiny fits by every method, and ways to interrupt them: for the serial and the parallel tests."""

from mpi_potts.runtime.control import Control


def sets(keys):
    return [f"{name}={value}" for name, value in keys.items()]


class Impatient(Control):
    """Asked to stop where the fit has been between its steps for the n-th time."""

    def __init__(self, steps):
        super().__init__()
        self._left = steps

    def agreed(self, comm):
        self._left -= 1
        return self._left < 0


class StopAt(Control):
    """Asked to stop, as by the clock or a signal, when it is looked at for the n-th time."""

    def __init__(self, looks):
        super().__init__()
        self._left = looks

    @property
    def stop(self):
        self._left -= 1
        return self._left < 0


CONTINUED = [
    ("path", "observations", {}),
    ("exchange", "observations", {"exchange.auxiliary_start": "random"}),
    ("exchange", "labels", {}),
    ("pseudolikelihood", "observations", {}),
    ("rejection", "labels", {"fit.pseudo_data": "true"}),
    ("smc-abc", "labels", {"fit.pseudo_data": "true"}),
    ("smc-abc", "observations", {"smc.replicates": "infinite"}),
    ("smc-abc", "observations", {"fit.as_in_paper": "true", "fit.chains": 1}),
]
TINY = {
    "precompute.grid": "critical",
    "precompute.points": 20,
    "exchange.iterations": 40,
    "exchange.burn_in": 15,
    "exchange.auxiliary_sweeps": 5,
    "fit.final_burn_in": 15,
    "rejection.draws": 60,
    "rejection.quantile": 0.2,
    "smc.particles": 40,
    "smc.replicates": 10,
    "smc.max_iterations": 6,
    "pseudo_data.burn_in": 5,
}
