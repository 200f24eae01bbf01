"""Pages with tables and figures, of a fit, a binding function or a study, from their files.

Whoever imports this needs matplotlib.  No equation of the paper lives here.

May import: ground, numbers, io, config, image, model, estimation, binding, posterior, study.
"""
