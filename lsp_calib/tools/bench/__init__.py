"""`lsp-calib bench`: recorded typing replayed through the real server, with comparable times."""

TYPING, CANCEL, BESIDE = PARTS = ("typing", "cancel", "beside")
"""The parts that `--only` can name, in the order in which they are measured."""
