"""Runs V.42bis of the library spandsp, for the test in spandsp.rs.

usage: spandsp.py compress|decompress CODEWORDS LONGEST_STRING MODE

MODE is dynamic, always or never. Reads blocks from stdin, each after its length (4 bytes, big-endian). Writes the
library's output for each block, after a flush, in the same form. Exits with 77 if the library is not installed.
"""

import ctypes
import struct
import sys

HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_int)
BOTH_DIRECTIONS = 3
MODES = {"dynamic": 0, "always": 1, "never": 2}


def main():
    verb, codewords, longest, mode = sys.argv[1:]
    try:
        library = ctypes.CDLL("libspandsp.so.2")
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(77)
    made = bytearray()

    def take(_, data, length):
        made.extend(ctypes.string_at(data, length))

    handler = HANDLER(take)
    library.v42bis_init.restype = ctypes.c_void_p
    library.v42bis_init.argtypes = [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
        HANDLER, ctypes.c_void_p, ctypes.c_int, HANDLER, ctypes.c_void_p, ctypes.c_int,
    ]
    state = library.v42bis_init(
        None, BOTH_DIRECTIONS, int(codewords), int(longest), handler, None, 1024, handler, None, 1024
    )
    if not state:
        sys.exit("the library rejected the parameters")
    state = ctypes.c_void_p(state)
    library.v42bis_compression_control(state, MODES[mode])
    convert = getattr(library, f"v42bis_{verb}")
    flush = getattr(library, f"v42bis_{verb}_flush")
    stdin = sys.stdin.buffer
    while head := stdin.read(4):
        block = stdin.read(struct.unpack(">I", head)[0])
        if convert(state, block, len(block)) != 0:
            sys.exit("the library rejected a block")
        flush(state)
        sys.stdout.buffer.write(struct.pack(">I", len(made)) + made)
        made.clear()


main()
