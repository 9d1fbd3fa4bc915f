"""llama.cpp through its binding, in the model process."""
