"""The studies' figures, drawn from data that other modules computed.

Each function takes a finished result and a `Theme`, and returns a matplotlib figure to show, or to write for
light and dark pages with `theme.save_both`. matplotlib (the extra `figures`) is imported on the first
drawing; all functions raise DataError if it is not installed.
"""
