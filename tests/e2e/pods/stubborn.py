"""A pod that does not want to go: ignores SIGTERM, and leaves a grandchild in a session of its own that ignores it too.

Both hold an exclusive lock on one file for each GPU of the pod (argument 1: the directory of the locks), inherited over
both forks. Whoever comes next takes the same locks, so a lock that cannot be had proves that a GPU was given on while a
process of its former pod was alive. Each start appends a line to DIR/witness: `clean` or `VIOLATION`.
"""

import fcntl
import os
import signal
import sys


def main():
    directory = sys.argv[1]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    clean = True
    locks = []
    for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
        name = f"{os.environ['EBB_NODE']}-{gpu}".replace("/", "_")
        lock = os.open(os.path.join(directory, name), os.O_RDWR | os.O_CREAT, 0o644)
        os.set_inheritable(lock, True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            clean = False
        locks.append(lock)
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        write(directory, f"grandchild {os.getpid()}")
        while True:
            signal.pause()
    os.wait()
    write(directory, f"{'clean' if clean else 'VIOLATION'} {os.getpid()} {os.environ['EBB_JOB_ID']}")
    while True:
        signal.pause()


def write(directory, line):
    file = os.open(os.path.join(directory, "witness"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, (line + "\n").encode())
    os.close(file)


main()
