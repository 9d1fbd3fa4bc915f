"""Scripted servers that start without a second of imports: forks of a process that has imported everything.

`python fork_server.py SOCKET` imports what a scripted server does and waits at SOCKET until its standard
input ends. `python fork_server.py SOCKET --start SCRIPT` stands for one server: it hands its standard
streams, environment and folder over, ends with the server's exit code, and takes it along when it is killed.
Only the imports are shared: a test of when modules are imported starts an unforked server.
"""

# The second form runs without site-packages, and imports no more than it needs.
import marshal
import os
import socket
import sys

_MOST = 1 << 16


def stand_for_one(path, script):  # type: ignore[no-untyped-def]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    request = marshal.dumps((script, dict(os.environ), os.getcwd()))  # noqa: PTH109 - pathlib takes a while
    socket.send_fds(connection, [request], [0, 1, 2])
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # what the server closes is closed
    code = connection.recv(1)
    os._exit(code[0] if code else 1)


def serve(path):  # type: ignore[no-untyped-def]
    import gc
    import importlib
    import pkgutil
    import select
    import signal

    import scripted_server

    from lsp_calib import server

    server.create_server()
    for module in pkgutil.iter_modules(server.__path__):
        importlib.import_module(f"lsp_calib.server.{module.name}")
    gc.freeze()
    ended, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    os.write(1, b"ready\n")
    running = {}
    while True:
        ready, _, _ = select.select([0, ended, listening], [], [])
        if 0 in ready:
            os._exit(0)
        if ended in ready:
            os.read(ended, 4096)
        if listening in ready:
            connection, _ = listening.accept()
            request, descriptors, _, _ = socket.recv_fds(connection, _MOST, 3)
            pid = os.fork()
            if pid == 0:
                for descriptor in (listening.fileno(), ended, awake):
                    os.close(descriptor)
                for other in running.values():
                    os.close(other.fileno())
                _be_a_server(scripted_server, connection, request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            running[pid] = connection
        _report(running)


def _report(running):  # type: ignore[no-untyped-def]
    import contextlib

    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):  # it was killed, and its server with it
            connection.send(bytes([code if code >= 0 else 128 - code]))
        connection.close()


def _be_a_server(scripted_server, connection, request, descriptors):  # type: ignore[no-untyped-def]
    import atexit
    import contextlib
    import signal
    import threading
    import traceback

    code = 0
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
            os.close(descriptor)
        script, environment, folder = marshal.loads(request)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = [scripted_server.__file__, script]

        def end_with_it():  # type: ignore[no-untyped-def]
            connection.recv(1)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=end_with_it, daemon=True).start()
        scripted_server.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        code = 1
    finally:
        # As at the end of any program.
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the server has closed it
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[2:3] == ["--start"]:
        stand_for_one(sys.argv[1], sys.argv[3])
    else:
        serve(sys.argv[1])
