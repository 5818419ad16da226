"""`modeseek optimize`: a function by its name, a space from a file, and an Optuna study that keeps the trials."""
