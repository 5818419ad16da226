"""`python -m modeseek`: the command line."""

import sys

from modeseek.commands import main

sys.exit(main())
