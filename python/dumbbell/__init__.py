"""dumbbell: a congestion-control laboratory."""
