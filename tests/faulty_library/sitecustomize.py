"""A llama.cpp that crashes, for processes with this folder on PYTHONPATH and LSP_CALIB_TEST_FAULT set.

The library, the model and the crash (signal 11 in a decode) are real. LSP_CALIB_TEST_FAULT says when:

    amx       the processor seems to have AMX, and the library crashes unless AMX was withheld from it
    repack    unless weights are not repacked
    gpu       there seems to be a GPU, and the library crashes with layers on it
    decode    in every decode
    answer    in every decode of more than 4 tokens of the model process itself, but not in a trial
"""

import ctypes
import os
import sys
import threading


def _install(fault: str) -> None:
    import llama_cpp

    from lsp_calib.inference import processor

    state = {"repack": True, "gpu": False}
    load, decode = llama_cpp.llama_model_load_from_file, llama_cpp.llama_decode

    def loading(path, params):  # type: ignore[no-untyped-def]
        state["repack"], state["gpu"] = bool(params.use_extra_bufts), params.n_gpu_layers > 0
        return load(path, params)

    def withheld() -> bool:
        return any(thread.name == "signal stack" for thread in threading.enumerate())

    trial = any(argument.startswith("--trial") for argument in sys.orig_argv)

    def decoding(context, batch):  # type: ignore[no-untyped-def]
        crashes = {
            "amx": not withheld(),
            "repack": state["repack"],
            "gpu": state["gpu"],
            "decode": True,
            "answer": batch.n_tokens > 4 and not trial and state["repack"],
        }
        if crashes[fault]:
            ctypes.string_at(0)
        return decode(context, batch)

    llama_cpp.llama_model_load_from_file, llama_cpp.llama_decode = loading, decoding
    if fault == "amx":
        llama_cpp.llama_print_system_info = lambda: b"CPU : AMX_INT8 = 1 | "
        processor.has_amx = lambda: True
    if fault == "gpu":
        llama_cpp.llama_supports_gpu_offload = lambda: True


if os.environ.get("LSP_CALIB_TEST_FAULT") and "lsp_calib.inference.process" in sys.orig_argv:
    _install(os.environ["LSP_CALIB_TEST_FAULT"])
