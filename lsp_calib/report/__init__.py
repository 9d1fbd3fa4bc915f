"""The report as a page: one file without scripts, that needs no network."""
