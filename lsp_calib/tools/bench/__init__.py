"""`lsp-calib bench`: recorded typing replayed through the real server, with comparable times."""

PARTS = ("typing", "cancel", "typing-on", "long-file", "idle", "two", "beside", "summaries")
"""The parts that `--only` can name. The peer repeats the requests of typing, so it belongs to that part."""
