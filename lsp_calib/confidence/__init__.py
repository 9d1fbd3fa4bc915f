"""A model's answer with its probabilities -> one raw confidence in [0, 1], and features of the answer."""
