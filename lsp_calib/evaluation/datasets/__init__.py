"""Public data sets, one module each. They are read from the folder in `LSP_CALIB_DATA` or `--data-dir`."""
