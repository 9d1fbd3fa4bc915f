"""One `Engine` interface to a local model: the model process, model cards, downloads and checksums."""
