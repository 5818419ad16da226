"""Experiments: tasks, methods, campaigns, measurements and reports. The core knows nothing of this room."""
