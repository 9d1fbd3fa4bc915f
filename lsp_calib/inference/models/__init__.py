"""Models: their cards and files, the sources of the files, the memory and time that they take."""
