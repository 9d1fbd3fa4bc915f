"""From a probability to a tier: thresholds, costs, certified risk; and when a promise no longer holds."""
