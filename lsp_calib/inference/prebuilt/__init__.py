"""llama.cpp's own server as a ready wheel, in the model process."""
