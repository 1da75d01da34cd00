"""Studies: many runs of a scenario after a design of experiments."""
