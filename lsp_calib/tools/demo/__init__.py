"""`lsp-calib demo`: the main job, end to end, in a terminal."""
