"""Calibrators: fitted, stored in files, chosen for a model, refitted."""
