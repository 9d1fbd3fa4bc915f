"""How the tests start a server, and how long they wait for it."""

import sys

SERVER = [sys.executable, "-m", "lsp_calib", "serve"]
# Seconds.
PATIENCE = 120.0
