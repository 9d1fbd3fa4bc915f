"""Public data sets, read from the folder that `LSP_CALIB_DATA` or `--data-dir` names; one module each."""
