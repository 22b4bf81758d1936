"""The command `python` of tests/pythons: asks the server at SOCKET for a fork and ends as the fork does.

Only modules that load at once are imported. The folder of the server adds the first lines: the interpreter and SOCKET.
"""

import _socket
import marshal
import os
import signal
import sys

server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(SOCKET)  # type: ignore[name-defined] # noqa: F821 # defined by the line that is added
request = marshal.dumps([sys.argv[1:], dict(os.environ), os.getcwd()])  # noqa: PTH109 # pathlib takes longer to load than all of this
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([len(request).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
sent = 0
while sent < len(request):
    sent += server.send(request[sent:])
program = int.from_bytes(server.recv(8, _socket.MSG_WAITALL), "big")


def pass_on(number: int, _frame: object) -> None:
    try:
        os.killpg(program, number)
    except ProcessLookupError:
        return


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, pass_on)
status = server.recv(8, _socket.MSG_WAITALL)
code = os.waitstatus_to_exitcode(int.from_bytes(status, "big")) if status else 70
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
