"""`lsp-calib bench`: recorded typing replayed through the real server, with comparable times."""
