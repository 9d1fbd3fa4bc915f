"""The filter of system calls that a program in the sandbox runs under: a BPF program for seccomp.

It refuses calls that reach beyond the sandbox (keyrings, tracing, mounts, namespaces), and those that
programs need least and kernel faults were found in most (bpf, io_uring, perf, userfaultfd). Of calls that
were added after the last renumbering, only the named ones are allowed. Sockets are local ones. Standard
library only: no site-packages here.

Source: Linux, Documentation/userspace-api/seccomp_filter.rst; include/uapi/linux/audit.h, bpf_common.h and
seccomp.h; the tables arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Instruction = tuple[int, int, int, int]
    """code, instructions to skip if a comparison is true, and if it is false, operand: struct sock_filter."""

# The architecture as the kernel names it to a filter. A program enters the kernel as another architecture
# where it uses the 32-bit interface: numbers mean other calls there.
_ARCHITECTURES = {
    "x86_64": 0xC000003E,
    "aarch64": 0xC00000B7,
    "riscv64": 0xC00000F3,
    "loongarch64": 0xC0000102,
}

# Numbers on x86_64, and on the architectures that share one table.
_REFUSED = {
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
}
# On x86_64 alone: ports of devices, segments, libraries and modules of old kinds.
_REFUSED_X86 = {
    "uselib": 134,
    "sysfs": 139,
    "modify_ldt": 154,
    "_sysctl": 156,
    "iopl": 172,
    "ioperm": 173,
    "create_module": 174,
    "get_kernel_syms": 177,
    "query_module": 178,
    "vserver": 236,
}
_LAST = (334, 294)  # the last number of the table, before those that all architectures share
_CLONE, _SOCKET, _SOCKETPAIR = (56, 220), (41, 198), (53, 199)

# From this number on, all architectures count alike, and new calls are added.
_SHARED = 424
_ALLOWED = {
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "close_range": 436,
    "openat2": 437,
    "faccessat2": 439,
    "epoll_pwait2": 441,
    "futex_waitv": 449,
    "cachestat": 451,
    "fchmodat2": 452,
    "map_shadow_stack": 453,
    "futex_wake": 454,
    "futex_wait": 455,
    "futex_requeue": 456,
    "mseal": 462,
}

# Some of the others, for the trial of a sandbox.
_REFUSED_NEW = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "memfd_secret": 447,
    "open_tree_attr": 467,
}

# Flags of `clone` that make namespaces. `clone3` has them in memory, which a filter does not see: it is among
# the refused ones, and the C library then uses `clone`.
_NAMESPACES = 0x7E020000

# The module `socket` takes time to import, before every tested program.
_UNIX = 1

_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_LOAD = 0x20
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_RETURN = 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def program(machine: str) -> list[Instruction]:
    """The filter for a processor, by its name in `uname`.

    A refused call fails with ENOSYS, as on a kernel that does not have it; a socket of another family with
    EAFNOSUPPORT. Raises OSError for a processor whose calls are not known here.
    """
    column = _column(machine)
    shared = [*_where(_IF_EQUAL, _ALLOWED.values(), _answer()), _answer(errno.ENOSYS)]
    local = [_argument(0), *_where(_IF_EQUAL, [_UNIX], _answer()), _answer(errno.EAFNOSUPPORT)]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _answer(errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
        # On x86_64 this includes the x32 interface, whose numbers have a high bit set.
        *_block(_IF_AT_LEAST, _SHARED, shared),
        *_where(_IF_AT_LEAST, [_LAST[column] + 1], _answer(errno.ENOSYS)),
        *_where(_IF_EQUAL, refused(machine).values(), _answer(errno.ENOSYS)),
        *_block(
            _IF_EQUAL,
            _CLONE[column],
            [_argument(0), *_where(_IF_ANY_BIT, [_NAMESPACES], _answer(errno.ENOSYS)), _answer()],
        ),
        *_block(_IF_EQUAL, _SOCKETPAIR[column], local),
        *_block(_IF_EQUAL, _SOCKET[column], local),
        _answer(),
    ]


def refused(machine: str) -> dict[str, int]:
    """The numbers of the refused calls on a processor, by name. Raises OSError as `program` does."""
    column = _column(machine)
    old = {name: numbers[column] for name, numbers in _REFUSED.items()}
    return old | _REFUSED_NEW | (_REFUSED_X86 if machine == "x86_64" else {})


def _column(machine: str) -> int:
    """Where the tables above have the numbers of a processor."""
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"the system calls of {machine} processors are not known to the filter")
    return 0 if machine == "x86_64" else 1


def _answer(error: int = 0) -> Instruction:
    return _RETURN, 0, 0, _ERROR | error if error else _ALLOW


def _argument(index: int) -> Instruction:
    """Load the lower half of an argument: all that the kernel uses of those that are looked at."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * index


def _where(comparison: int, operands: Iterable[int], answer: Instruction) -> list[Instruction]:
    """Give the answer where the comparison with one of the operands is true."""
    return [row for operand in operands for row in ((comparison, 0, 1, operand), answer)]


def _block(comparison: int, operand: int, block: list[Instruction]) -> list[Instruction]:
    """Go through the block, which gives an answer in each case, where the comparison is true."""
    return [(comparison, 0, len(block), operand), *block]
