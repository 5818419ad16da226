"""The experiments behind docs/decisions.md; each file is a command: `python -m studies.labels --help`."""
