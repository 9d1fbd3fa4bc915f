"""From a probability to a tier: thresholds, costs, certified risk; and the watch for drift."""
