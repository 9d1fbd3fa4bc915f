"""Parts of both llama.cpp engines: the run of a generation, its text, token healing, cached sequences."""
