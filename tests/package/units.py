#!/usr/bin/env python3
"""units.py BUILD_DIR: the daemon works when it is started as the installed units say, by a stand-in for systemd."""
import configparser
import os
import pathlib
import pwd
import shlex
import signal
import socket
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
USER = pwd.getpwuid(os.geteuid()).pw_name


class Unit:
    """The keys of a unit, with specifiers put in; a key may have several values."""

    def __init__(self, path, specifiers):
        parser = configparser.ConfigParser(strict=False, interpolation=None, dict_type=MultiDict, delimiters=("=",))
        parser.optionxform = str
        parser.read(path)
        self.parser, self.specifiers = parser, specifiers

    def all(self, section, key):
        values = self.parser.get(section, key, fallback="").split("\n")
        return [self.expand(value) for value in values if value]

    def one(self, section, key):
        (value,) = self.all(section, key)
        return value

    def expand(self, text):
        for name, value in self.specifiers.items():
            text = text.replace("%" + name, value)
        assert "%" not in text, text
        return text


class MultiDict(dict):
    """configparser keeps the last value; systemd's lists need all."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and isinstance(self.get(key), list):
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def listen(unit):
    owned_by_account = [command for command in unit.all("Socket", "ExecStartPre") if " -o " in command]
    for key in ("SocketUser", "SocketGroup", "ExecStartPost", "Symlinks"):
        assert not (owned_by_account and unit.all("Socket", key)), f"{key}: root works in the account's own directory"
    for command in unit.all("Socket", "ExecStartPre"):
        subprocess.run(shlex.split(command), check=True)
    path = pathlib.Path(unit.one("Socket", "ListenStream"))
    for mode in unit.all("Socket", "DirectoryMode"):
        path.parent.mkdir(mode=int(mode, 8), parents=True)
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~int(unit.one("Socket", "SocketMode"), 8))
    listening.bind(str(path))
    os.umask(before)
    listening.listen(16)
    return path, listening


def start(unit, listening, notify):
    environment = {"PATH": os.environ["PATH"], "HOME": str(notify.parent / "home")}
    environment.update(NOTIFY_SOCKET=str(notify), LISTEN_FDS="1")
    minutes = unit.one("Service", "WatchdogSec").removesuffix("min")
    environment["WATCHDOG_USEC"] = str(int(minutes) * 60_000_000)
    environment.update(pair.split("=", 1) for pair in unit.all("Service", "Environment"))
    command = shlex.split(unit.one("Service", "ExecStart"))

    def become():
        os.dup2(listening.fileno(), 3)
        os.set_inheritable(3, True)  # where it was 3 already
        os.umask(int(unit.one("Service", "UMask"), 8))

    # A shell knows the id that the daemon will have.
    words = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", "setpriv", "--no-new-privs", *command]
    return subprocess.Popen(words, env=environment, preexec_fn=become, close_fds=False, stdout=sys.stderr)


def hear(notified, wanted):
    while True:
        word = notified.recv(200).decode()
        if word == wanted:
            return


def check(kind, name, work, prefix):
    specifiers = {name: str(work / place) for name, place in zip("tCSE", ("run", "cache", "state", "etc"))}
    specifiers["i"] = USER
    (work / "run").mkdir(parents=True)
    units = prefix / "lib" / "systemd" / kind
    path, listening = listen(Unit(units / f"{name}.socket", specifiers))
    assert path.parent.stat().st_mode & 0o777 == 0o700, "the directory is open to others"
    service = Unit(units / f"{name}.service", specifiers)
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(work / "notify"))
    notified.settimeout(120)
    daemon = start(service, listening, work / "notify")
    listening.close()
    try:
        hear(notified, "READY=1")
        client = dict(os.environ, KILN_RUNTIME_DIR=str(path.parent), KILN_KILND="/nonexistent")
        kiln = [str(prefix / "bin" / "kiln")]
        told = subprocess.run([*kiln, "ping"], env=client, check=True, capture_output=True, text=True).stdout
        assert told.split()[:2] == ["pid", str(daemon.pid)], told
        kernel = prefix / "share/kiln/examples/vector_add.kiln"
        subprocess.run([*kiln, "compile", kernel, "--emit", "obj", "-o", work / "add.o"], env=client, check=True)
        reload_word = service.one("Service", "ExecReload").replace("$MAINPID", str(daemon.pid))
        subprocess.run(shlex.split(reload_word), check=True)
        subprocess.run([*kiln, "ping"], env=client, check=True, capture_output=True)
        daemon.send_signal(signal.SIGTERM)
        hear(notified, "STOPPING=1")
        assert daemon.wait(120) == 0, daemon.returncode
        assert path.exists(), "the socket is the manager's"
    finally:
        daemon.kill()
    print(f"{kind}/{name}: served, reloaded, left")


with tempfile.TemporaryDirectory(prefix="kiln-units-", dir="/tmp") as directory:
    root = pathlib.Path(directory)
    subprocess.run(["cmake", "--install", BUILD, "--prefix", root / "prefix"], check=True, stdout=subprocess.DEVNULL)
    check("user", "kilnd", root / "user", root / "prefix")
    check("system", "kilnd@", root / "system", root / "prefix")
