"""How good probabilities are: scores, calibration errors, reliability, correlation."""
