"""One thread each: the tests' matrices are small, and waiting for a second core costs more than it gives."""

import os

# Also for the processes that tests start, whose results must agree to the last bit.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

torch.set_num_threads(1)
