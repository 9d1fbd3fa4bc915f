"""One `Engine` interface, and the engines behind it: the model process, or a remote server."""
