#!/usr/bin/env python3
"""probes.py LIBRARY: the static probes that the library's ELF notes (.note.stapsdt) name, with what each has."""
import struct
import sys

WANTED = {"launch_begin": 2, "launch_end": 0, "compile_begin": 2, "compile_end": 0, "fallback": 4}


def section(data, wanted):
    """The bytes of a section of a 64-bit ELF file; None: it has none of this name."""
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + size * i) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, at, length in headers:
        start = strings + name
        if data[start:data.index(b"\0", start)] == wanted:
            return data[at:at + length]
    return None


def notes(data):
    while data:
        name_size, size, kind = struct.unpack_from("<III", data)
        begin = 12 + (name_size + 3) // 4 * 4
        yield data[12:12 + name_size], kind, data[begin:begin + size]
        data = data[begin + (size + 3) // 4 * 4:]


def main():
    with open(sys.argv[1], "rb") as file:
        found = section(file.read(), b".note.stapsdt")
    assert found is not None, "the library has no probes: was it built without sys/sdt.h?"
    probes = {}
    for owner, kind, text in notes(found):
        assert owner == b"stapsdt\0" and kind == 3, (owner, kind)
        address, _, semaphore = struct.unpack_from("<QQQ", text)
        provider, name, arguments = (part.decode() for part in text[24:].split(b"\0")[:3])
        assert address != 0 and semaphore == 0, name
        assert provider == "kiln", provider
        probes.setdefault(name, set()).add(len(arguments.split()))
    assert probes == {name: {count} for name, count in WANTED.items()}, probes
    print(", ".join(sorted(probes)))


if __name__ == "__main__":
    main()
