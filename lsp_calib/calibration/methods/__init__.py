"""Methods of calibration: curves from raw confidences to probabilities."""
