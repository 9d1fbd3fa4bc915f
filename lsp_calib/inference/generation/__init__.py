"""What both llama.cpp engines share: the run of a generation, its text, token healing, cached sequences."""
