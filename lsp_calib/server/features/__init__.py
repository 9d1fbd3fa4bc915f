"""What an editor can use, a module for each kind of feature."""
