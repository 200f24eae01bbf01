"""Every compiled function (@njit), and what decides how labels lie in memory for them.

The sweeps of the prior and of the labels given the data: equations (5), (8) and (10) of the paper, in the
forms that are fast on a plane (`chequerboard*`, `swendsen_wang`, `chain`) and in one that takes any lattice
(`general`); the conjugate draws of the noise of equation (9) (`conjugate`); the draw of beta given S(z) of
equation (6) (`surrogate`); and the counting of equations (1) and (4) (`smc`).  A kernel takes arrays and
numbers and knows neither ranks nor files.

May import: ground.
"""
