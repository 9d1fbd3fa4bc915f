"""An engine over an OpenAI-compatible server."""
