"""Where evaluations run: pools of workers, budgets, progress, interrupts."""
