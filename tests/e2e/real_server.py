"""How the tests start a server, and how long they wait for it."""

import os
import sys

SERVER = [sys.executable, "-m", "lsp_calib", "serve"]
# Seconds. Tests that must fail need not wait so long for it (test_noise.py).
PATIENCE = float(os.environ.get("LSP_CALIB_TEST_PATIENCE", "120"))
