"""`lsp-calib doctor`: checks the installation, measures its speed, and gives advice."""
