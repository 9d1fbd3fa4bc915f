"""What can be said beyond the labels at hand: folds, intervals, tests."""
