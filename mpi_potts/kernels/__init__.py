"""Every compiled function (@njit), and what decides how labels lie in memory for them.

The sweeps of the prior and of the labels given the data: equations (5), (8) and (10) of the paper, on any
lattice (`gibbs*` and `conditional`, `clusters` behind `swendsen_wang`, both by turns in `alternating`), on a
graph (`graph`), and the prior's on a plane (`chequerboard*`); the chain of labels and noise made of them
(`chain`); what they ask of a noise model (`noise`), and the Gaussian noise of equation (9) (`gaussian`); the
draw of beta given S(z) of equation (6) (`surrogate`); and the counting of equations (1) and (4) (`smc`).
Below them numbers: random ones (`threefry`, `words`, `variates`) and functions whose operations are written
down (`elementary`, `float32`, `linear`, `fourier`).  A kernel takes arrays and numbers and knows neither
ranks nor files.

May import: ground.
"""

from . import cache, widths

cache.ensure()
widths.widen()
