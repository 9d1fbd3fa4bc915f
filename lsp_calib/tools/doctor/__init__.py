"""`lsp-calib doctor`: what is installed, what works, how fast, and what to do."""
