"""`lsp-calib bench`: recorded typing replayed through the real server, with times that can be compared."""
