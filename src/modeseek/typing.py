"""Types that many rooms share."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

# A dict by name for a named space, a float64 array for a box. `Any`, so that users need no cast.
Params: TypeAlias = Any

# Settings of the method; see `DMSConfig`. They are here so that reading settings does not load torch.
LossWeight = Literal["h", "one"]
Prediction = Literal["noise", "score"]
Refinement = Literal["point", "joint"]
Solver = Literal["ode", "sde"]
Noise: TypeAlias = Literal["fitted", "none"]  # of observations: to be fitted, or a deterministic objective
