"""Campaigns: replications of methods on tasks, and their records."""
