"""What is fitted, kept in a file, chosen for a model and refitted."""
