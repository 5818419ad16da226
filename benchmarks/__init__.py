"""Speed tables: modeseek beside floors and peers, in one run."""
