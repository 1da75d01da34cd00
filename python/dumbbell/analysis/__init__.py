"""Analysis of experiments: functions on data frames, their figures, and a report."""
