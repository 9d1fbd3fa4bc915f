"""`lsp-calib bench`: recorded typing replayed through the real server, with times that can be compared."""

PARTS = ("typing", "cancel", "typing-on", "long-file", "idle", "two", "beside")
"""What `--only` can name. A peer is asked for what typing has shown, and so belongs to that."""
