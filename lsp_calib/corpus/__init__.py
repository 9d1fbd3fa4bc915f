"""Places in source, functions and commits; a model asked about them; its answers as records, in files."""
